/** Everything about one rank: what it is now, curves of the last minutes, and what it tells when asked. */

import { createSections } from "./answers.js";
import { OBSERVER, makeArmedButton, makeButton } from "./buttons.js";
import { curve } from "./history.js";
import { html, write } from "./nodes.js";
import { updateDetail } from "./summary.js";

const PART_TITLES = ["stack", "last lines", "collectives", "variables"];
const READING = "reading…";

/** @param {Topology} state @param {number} rank */
function engineOf(state, rank) {
  return state.hosts.flatMap((host) => host.engines).find((engine) => engine.rank === rank);
}

/** The parts of an open panel. @param {Element} parent @param {number} rank */
function makePanel(parent, rank) {
  const node = html("section", "jd-rank-panel", parent);
  node.dataset.shownRank = String(rank);
  node.setAttribute("aria-label", `rank ${rank}`);
  const head = html("div", "jd-panel-head", node);
  const title = html("h3", "jd-panel-title", head);
  title.textContent = `Rank ${rank}`;
  title.tabIndex = -1;
  const when = html("span", "jd-panel-when", head);
  when.setAttribute("role", "status");
  const buttons = html("span", "jd-buttons", head);
  const facts = html("div", "jd-panel-facts", node);
  const curves = html("div", "jd-curves", node);
  const sections = createSections(html("div", "jd-sections", node), { hasTitles: true });
  sections.set(PART_TITLES.map((part) => ({ title: part, text: READING })));
  return { node, title, when, buttons, facts, curves, sections };
}

/** Curves of a rank: of its GPUs where it has some, else of its process. */
function makeCurves(parent, history, /** @type {Engine | undefined} */ engine, rank) {
  const isOnGpu = engine?.device !== null && engine?.device !== undefined;
  const wanted = isOnGpu
    ? [["gpu_memory", "GPU memory"], ["utilisation", "GPU utilisation"], ["rss", "memory"]]
    : [["rss", "memory"], ["utilisation", "CPU"]];
  const drawn = wanted.map(([what, label]) => ({ what, ...curve(parent, history.samples(rank, what), label) }));
  return () => drawn.forEach(({ what, set }) => set(history.samples(rank, what)));
}

/**
 * A panel that opens for one rank at a time.
 * @param {Element} parent
 * @param {ReturnType<import("./requests.js").createRequests>} requests
 * @param {ReturnType<import("./history.js").createHistory>} history
 * @param {(rank: number) => void} onClosed gives the focus back to where it came from
 * @param {boolean} [isObserver] nothing is offered that would change the rank
 */
export function createRankPanel(parent, requests, history, onClosed, isObserver = false) {
  /** @type {(ReturnType<typeof makePanel> & {rank: number, redraw: () => void, disarm: () => void, buttonsOfRank: HTMLButtonElement[]}) | null} */
  let open = null;
  /** @type {Topology | null} */
  let state = null;

  function refresh() {
    if (!open) return;
    const panel = open;
    write(panel.when, "text", READING);
    requests.ask(
      { kind: "rank", rank: panel.rank },
      {
        hasLine: false,
        onAnswer(answer) {
          if (open !== panel) return;
          if (answer.sections) panel.sections.set(answer.sections);
          const isRead = answer.ok && answer.is_final !== false;
          const words = isRead ? `as of ${new Date().toLocaleTimeString()}` : answer.text;
          write(panel.when, "text", words);
          panel.node.toggleAttribute("data-not-read", !answer.ok);
        },
      }
    );
  }

  /** @param {number} rank */
  function show(rank) {
    remove();
    const panel = makePanel(parent, rank);
    makeButton(panel.buttons, "jd-refresh", "Refresh", "Read everything about this rank again", refresh);
    const interrupt = makeButton(panel.buttons, "jd-interrupt-rank", "Interrupt rank", "Interrupt the running cell on this rank only", () =>
      requests.ask({ kind: "interrupt", ranks: [rank] }, { title: `interrupt rank ${rank}` })
    );
    const replace = makeArmedButton(
      panel.buttons,
      "jd-replace-rank",
      { words: "Replace rank…", sure: "Really replace?", title: "End this rank's process and start a new one; its variables are lost" },
      () => requests.ask({ kind: "heal", ranks: [rank] }, { title: `replace rank ${rank}` })
    );
    makeButton(panel.buttons, "jd-close", "Close", "Close (Esc)", close);
    const redraw = makeCurves(panel.curves, history, state ? engineOf(state, rank) : undefined, rank);
    if (isObserver) for (const button of [interrupt, replace.button]) button.title = OBSERVER;
    open = { ...panel, rank, redraw, disarm: replace.disarm, buttonsOfRank: [interrupt, replace.button] };
    if (state) update(state);
    refresh();
    panel.title.focus();
  }

  /** @param {Topology} next */
  function update(next) {
    state = next;
    if (!open) return;
    const isThere = engineOf(next, open.rank) !== undefined;
    if (isThere) updateDetail(open.facts, next, `rank ${open.rank}`);
    else open.facts.textContent = `rank ${open.rank} is not there any more`;
    for (const button of open.buttonsOfRank) button.disabled = isObserver || !isThere || next.state !== "ready";
    open.redraw();
  }

  function remove() {
    open?.disarm();
    open?.node.remove();
    open = null;
  }

  function close() {
    if (!open) return false;
    const { rank } = open;
    remove();
    onClosed(rank);
    return true;
  }

  return { show, update, close, destroy: remove };
}
