/**
 * `<dist-replay recording="hang">`: a recorded cluster with a scrubber, drawn by the view that draws live ones.
 *
 * pages.py makes one plain script of this and what it imports, because pages that are opened as files
 * may load scripts, but neither modules nor data; and puts STYLE before it.
 *
 * @typedef {{kind: "topology", told: Told}} TopologySeen
 * @typedef {{kind: "cell", label: string, is_running: boolean, html: string}} CellSeen
 * @typedef {{kind: "moment", text: string, code: string}} Moment what a person did or should see, and the cell that was run
 * @typedef {[number, TopologySeen | CellSeen | Moment]} Line seconds since the begin, and what a page was told
 * @typedef {{title: string, lines: Line[], ends_s: number}} Recording
 * @typedef {{lines: number, state: Topology | null, cell: CellSeen | null, moment: Moment | null, code: string}} Known
 *   what is known when so many lines have been read
 */

import { createReceiver } from "../../jupyter_dist/views/topology/static/changes.js";
import { createView } from "../../jupyter_dist/views/topology/static/view.js";

const STEP_S = 0.25; // pages are told as often how a cluster is
const TELL_AGAIN_MS = 2000; // a view takes five seconds of silence for a lost connection
const FOLDER = /** @type {HTMLScriptElement} */ (document.currentScript).src;
/** @type {Map<string, Promise<Recording>>} */
const recordings = new Map();

/** @param {string} packed lines of JSON, by gzip and base64 @returns {Promise<Recording>} */
async function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const [first, ...lines] = (await new Response(stream).text()).trimEnd().split("\n").map((line) => JSON.parse(line));
  return { ...first, lines, ends_s: Math.ceil(lines.at(-1)[0] / STEP_S) * STEP_S };
}

/** The recording in `NAME.js` beside this script. @param {string} name */
function load(name) {
  const known = recordings.get(name);
  if (known) return known;
  const script = document.createElement("script");
  const loaded = new Promise((resolve, reject) => {
    script.onload = () => resolve(unpack(/** @type {any} */ (script).recording));
    script.onerror = () => reject(new Error(`there is no recording ${name}: ${script.src} cannot be read`));
  });
  script.src = new URL(`${name}.js`, FOLDER).href;
  document.head.append(script);
  recordings.set(name, loaded);
  return loaded;
}

/**
 * Read a recording at any time of it: changes lead forward only, so going back begins at the begin.
 * @param {Line[]} lines
 * @returns {(time_s: number) => Known}
 */
function createReader(lines) {
  const begin = () => ({ lines: 0, state: null, cell: null, moment: null, code: "" });
  /** @type {Known} */
  let known = begin();
  let receiver = createReceiver();
  return (time_s) => {
    if (known.lines && lines[known.lines - 1][0] > time_s) [known, receiver] = [begin(), createReceiver()];
    for (; known.lines < lines.length && lines[known.lines][0] <= time_s; known.lines++) {
      const said = lines[known.lines][1];
      if (said.kind === "topology") known.state = receiver.take(said.told);
      else if (said.kind === "cell") known.cell = said;
      else {
        known.moment = said;
        // The output of the cell before is not that of this one.
        if (said.code) [known.code, known.cell] = [said.code, null];
      }
    }
    return known;
  };
}

/** @param {Element} parent @param {string} tag @param {Record<string, string>} [attributes] */
function add(parent, tag, attributes = {}, text = "") {
  const node = /** @type {any} */ (document.createElement(tag));
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  node.textContent = text;
  parent.append(node);
  return node;
}

/** @param {Element} parent @param {Recording} recording */
function makeParts(parent, { title, ends_s }) {
  const root = add(parent, "section", { class: "replay", "aria-label": `Recording: ${title}` });
  const bar = add(root, "div", { class: "bar" });
  const play = add(bar, "button", { type: "button", class: "play" });
  const scrubber = add(bar, "input", { type: "range", min: "0", max: String(ends_s), step: String(STEP_S), "aria-label": "Time" });
  const clock = add(bar, "span", { class: "clock" });
  const moments = add(root, "ol", { class: "moments", "aria-label": "Moments" });
  const stage = add(root, "div", { class: "stage" });
  const picture = add(stage, "div", { class: "picture" });
  const cell = add(stage, "div", { class: "cell" });
  const code = add(cell, "pre", { class: "code", tabindex: "0", role: "group", "aria-label": "Cell" });
  const label = add(cell, "div", { class: "label" });
  const output = add(cell, "div", { class: "output", tabindex: "0", role: "group", "aria-label": "Output of the cell" });
  return { play, scrubber, clock, moments, picture, code, label, output };
}

/** A button for each moment, which leads to it. @returns {(moment: Moment | null) => void} marks one of them */
function listMoments(/** @type {Element} */ list, /** @type {Line[]} */ lines, /** @type {(time_s: number) => void} */ seek) {
  /** @type {Map<object, Element>} */
  const buttons = new Map();
  for (const [at_s, said] of lines) {
    if (said.kind !== "moment") continue;
    const button = add(add(list, "li"), "button", { type: "button" }, `${at_s.toFixed(1)} s: ${said.text}`);
    button.onclick = () => seek(at_s);
    buttons.set(said, button);
  }
  return (moment) => {
    for (const [each, button] of buttons) {
      if (each === moment) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    }
  };
}

/**
 * Show a recording, standing at its begin.
 * @param {Element} parent
 * @param {Recording} recording
 * @returns {() => void} ends it
 */
function showRecording(parent, recording) {
  const { lines, ends_s } = recording;
  const parts = makeParts(parent, recording);
  const read = createReader(lines);
  const view = createView(parts.picture, (request) => {
    const text = "as recorded; stacks and variables were not";
    // Not final: a view says of final answers at what time of today they came.
    queueMicrotask(() => view.reply({ kind: "reply", id: request.id, ok: true, is_final: false, text }));
  });
  // A page may have several, and each landmark wants a name of its own.
  parts.picture.firstElementChild.setAttribute("aria-label", `Cluster topology: ${recording.title}`);
  const mark = listMoments(parts.moments, lines, seek);
  let time_s = 0;
  let shownLines = -1;
  let shownOutput = "";
  /** When the last frame was drawn, in ms; null: it stands still. @type {number | null} */
  let playedAt = null;
  let frame = 0;

  function show(isAgain = false) {
    const { lines: count, state, cell, moment, code } = read(time_s);
    parts.scrubber.value = String(time_s);
    parts.scrubber.setAttribute("aria-valuetext", `${time_s.toFixed(1)} s${moment ? `: ${moment.text}` : ""}`);
    parts.clock.textContent = `${time_s.toFixed(1)} of ${ends_s.toFixed(1)} s`;
    if (count === shownLines && !isAgain) return;
    shownLines = count;
    if (state) view.update(state);
    mark(moment);
    parts.code.textContent = code;
    parts.label.textContent = cell ? `${cell.label}${cell.is_running ? " runs" : " has ended"}` : "";
    const html = cell?.html ?? "";
    if (html !== shownOutput) parts.output.innerHTML = shownOutput = html;
  }
  function seek(/** @type {number} */ next_s) {
    time_s = Math.max(0, Math.min(ends_s, next_s));
    show();
  }
  function playOn(/** @type {number} */ now_ms) {
    seek(time_s + (now_ms - Number(playedAt)) / 1000);
    playedAt = now_ms;
    if (time_s < ends_s) frame = requestAnimationFrame(playOn);
    else pause();
  }
  function pause() {
    cancelAnimationFrame(frame);
    playedAt = null;
    parts.play.textContent = "Play";
  }
  function play() {
    if (time_s >= ends_s) seek(0);
    playedAt = performance.now();
    parts.play.textContent = "Pause";
    frame = requestAnimationFrame(playOn);
  }
  parts.play.onclick = () => (playedAt === null ? play() : pause());
  parts.scrubber.oninput = () => seek(parts.scrubber.valueAsNumber);
  const again = setInterval(() => show(true), TELL_AGAIN_MS);
  pause();
  show();
  return () => {
    pause();
    clearInterval(again);
    view.destroy();
  };
}

class DistReplay extends HTMLElement {
  #end = () => {};
  #turns = 0; // it may be moved while its recording is loaded

  async connectedCallback() {
    const turn = ++this.#turns;
    const root = this.shadowRoot ?? this.attachShadow({ mode: "open" });
    root.replaceChildren();
    add(/** @type {any} */ (root), "style", {}, STYLE);
    const name = this.getAttribute("recording") ?? "";
    try {
      const recording = await load(name);
      if (this.isConnected && turn === this.#turns) this.#end = showRecording(/** @type {any} */ (root), recording);
    } catch (problem) {
      add(/** @type {any} */ (root), "p", { role: "alert" }, String(problem));
    }
  }

  disconnectedCallback() {
    this.#end();
    this.#end = () => {};
  }
}

customElements.define("dist-replay", DistReplay);
