/** The topology view: one cluster drawn from one state value, with its buttons. */

import { createAnswers } from "./answers.js";
import { createButtons } from "./buttons.js";
import { createDrawing } from "./drawing.js";
import { createHistory } from "./history.js";
import { html, write } from "./nodes.js";
import { createPace } from "./pace.js";
import { createRankPanel } from "./rank_panel.js";
import { createRequests } from "./requests.js";
import { updateDetail, updateSummary } from "./summary.js";

const STALE_AFTER_MS = 5000;

/** The parts of the view that never change. @param {HTMLElement} parent */
function makeFrame(parent) {
  const root = html("section", "jd-topology", parent);
  root.setAttribute("aria-label", "cluster topology");
  // JupyterLab's keys for cells, as Enter and D D, are not meant while the focus is in here.
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  const head = html("div", "jd-head", root);
  const parts = {
    root,
    name: html("span", "jd-name", head),
    badge: html("span", "jd-badge", head),
    generation: html("span", "jd-generation", head),
    summary: html("span", "jd-summary", head),
    buttons: html("span", "jd-buttons", head),
    requests: html("div", "jd-requests", root),
    stale: html("div", "jd-stale", root),
    note: html("div", "jd-note", root),
  };
  for (const node of [parts.requests, parts.stale]) node.setAttribute("role", "status");
  parts.requests.setAttribute("aria-atomic", "false"); // only the line that has changed is read out
  for (const node of [parts.requests, parts.stale, parts.note]) node.hidden = true;
  return parts;
}

/** What to do when no answer comes: in a notebook the kernel may be busy. */
function adviceFor({ source }) {
  if (source) return () => ` from ${source}`;
  return (/** @type {string} */ kind) => (kind === "stop" ? ": use %dist_stop" : ": use ■");
}

/**
 * Draw a topology into `parent` and keep it up to date.
 * @param {HTMLElement} parent
 * @param {(request: object) => void} send carries {id, kind, ranks?, rank?} to whoever can act on it
 * @param {{source?: string, isObserver?: boolean,
 *   onArranged?: (across: string) => void}} [options] `source`: who brings the news and answers
 *   requests, where that is not the kernel;
 *   `isObserver`: nothing is offered that would change the cluster; `onArranged`: hears by which axis ranks are arranged
 */
export function createView(parent, send, options = {}) {
  const parts = makeFrame(parent);
  const { root } = parts;
  const requests = createRequests(parts.requests, send, adviceFor(options));
  const history = createHistory();
  /** @type {Topology | null} */
  let state = null;
  let looked = "";
  let newsAt = performance.now();
  const drawing = createDrawing(
    root,
    (key) => {
      looked = key;
      if (state) updateDetail(detail, state, looked, drawing.groups());
    },
    (rank) => panel.show(rank),
    options.onArranged
  );
  const detail = html("div", "jd-detail", root);
  const panel = createRankPanel(root, requests, history, drawing.focus, options.isObserver);
  const answers = createAnswers(root);
  const buttons = createButtons(parts.buttons, requests, answers);
  const width = () => Math.max(180, (root.clientWidth || 900) - 24);
  const pace = createPace((next) => {
    history.take(next);
    updateSummary(parts.summary, next.hosts.flatMap((host) => host.engines), next.note);
    drawing.update(next, width());
    updateDetail(detail, next, looked, drawing.groups());
    root.dataset.sequence = String(next.sequence);
  });

  function watchSilence() {
    const silent = performance.now() - newsAt;
    const isStale = state?.state === "ready" && silent > STALE_AFTER_MS;
    parts.stale.hidden = !isStale;
    root.toggleAttribute("data-stale", isStale);
    if (isStale) {
      const who = options.source ?? "the kernel";
      write(parts.stale, "text", `no news from ${who} for ${Math.floor(silent / 1000)} s; this is what was last known`);
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
    parts.note.hidden = !next.note || answers.say(next.note);
    pace.take(next);
    panel.update(next);
    buttons.allow(next, options.isObserver);
    root.dataset.clusterState = next.state;
    watchSilence();
  }
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !panel.close()) return;
    event.preventDefault();
    event.stopPropagation();
  });
  const clock = setInterval(() => {
    watchSilence();
    requests.tick();
  }, 1000);
  const resize = new ResizeObserver(() => state && drawing.update(state, width()));
  resize.observe(root);
  return {
    update,
    reply: requests.answer,
    destroy() {
      clearInterval(clock);
      pace.destroy();
      resize.disconnect();
      requests.destroy();
      buttons.destroy();
      panel.destroy();
      root.remove();
    },
  };
}
