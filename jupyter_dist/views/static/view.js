/** The topology view: one cluster drawn from one state value, with its buttons. */

import { createDrawing } from "./drawing.js";
import { html, write } from "./nodes.js";
import { createCommands } from "./requests.js";
import { updateDetail, updateSummary } from "./summary.js";

const STALE_AFTER_MS = 5000;

/** The parts of the view that never change. @param {HTMLElement} parent */
function makeFrame(parent) {
  const root = html("section", "jd-topology", parent);
  root.setAttribute("aria-label", "cluster topology");
  const head = html("div", "jd-head", root);
  const parts = {
    root,
    name: html("span", "jd-name", head),
    badge: html("span", "jd-badge", head),
    generation: html("span", "jd-generation", head),
    summary: html("span", "jd-summary", head),
    buttons: html("span", "jd-buttons", head),
    request: html("div", "jd-request", root),
    stale: html("div", "jd-stale", root),
    note: html("div", "jd-note", root),
  };
  parts.summary.setAttribute("aria-live", "polite");
  for (const node of [parts.request, parts.stale]) node.setAttribute("role", "status");
  for (const node of [parts.request, parts.stale, parts.note]) node.hidden = true;
  return parts;
}

/**
 * Draw a topology into `parent` and keep it up to date.
 * @param {HTMLElement} parent
 * @param {(message: object) => void} send carries {kind, id} to whoever can act on it
 */
export function createView(parent, send) {
  const parts = makeFrame(parent);
  const { root } = parts;
  const commands = createCommands(parts.buttons, parts.request, send);
  /** @type {Topology | null} */
  let state = null;
  let looked = "";
  let newsAt = performance.now();
  const drawing = createDrawing(root, (key) => {
    looked = key;
    if (state) updateDetail(detail, state, looked);
  });
  const detail = html("div", "jd-detail", root);
  const width = () => Math.max(260, (root.clientWidth || 900) - 24);

  function watchSilence() {
    const silent = performance.now() - newsAt;
    const isStale = state?.state === "ready" && silent > STALE_AFTER_MS;
    parts.stale.hidden = !isStale;
    root.toggleAttribute("data-stale", isStale);
    if (isStale) {
      write(parts.stale, "text", `no news from the kernel for ${Math.floor(silent / 1000)} s; this is what was last known`);
    }
  }
  /** @param {Topology} next */
  function update(next) {
    if (!next?.hosts) return;
    state = next;
    newsAt = performance.now();
    write(parts.name, "text", next.cluster);
    write(parts.badge, "text", next.state);
    write(parts.generation, "text", next.generation > 0 ? `generation ${next.generation}` : "");
    write(parts.note, "text", next.note);
    parts.note.hidden = !next.note;
    updateSummary(parts.summary, next.hosts.flatMap((host) => host.engines));
    drawing.update(next, width());
    if (looked || !detail.textContent) updateDetail(detail, next, looked);
    commands.allow(next.state);
    root.dataset.clusterState = next.state;
    watchSilence();
    root.dataset.sequence = String(next.sequence);
  }
  const clock = setInterval(watchSilence, 1000);
  const resize = new ResizeObserver(() => state && drawing.update(state, width()));
  resize.observe(root);
  return {
    update,
    reply: commands.reply,
    destroy() {
      clearInterval(clock);
      resize.disconnect();
      commands.destroy();
      root.remove();
    },
  };
}
