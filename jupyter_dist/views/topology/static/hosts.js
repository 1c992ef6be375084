/** The frame of a host: box, name, numbers, captions and its ports to the network. */

import { hostNumbers, hostWarnings } from "./facts.js";
import { svg, write } from "./nodes.js";
import { PORT } from "./ports.js";
import { steadyHostWarnings } from "./steady.js";
import { MARKS, clip } from "./words.js";

const LETTER = 5.35;
const BOLD_LETTER = 6;
const NAME_LETTER = 7.4;

/** The nodes of one host that stay while it is there. */
export function makeHost() {
  const node = svg("g", { class: "jd-host", role: "group" });
  const box = svg("rect", { class: "jd-host-box", rx: 9 }, node);
  const links = svg("g", { class: "jd-links", "aria-hidden": "true" }, node);
  const head = svg("g", { class: "jd-host-head", "aria-hidden": "true" }, node);
  const hit = svg("rect", { class: "jd-hit", x: 1, y: 1, height: 26, rx: 8 }, head);
  const name = svg("text", { class: "jd-host-name", x: 10, y: 18 }, head);
  const facts = svg("text", { class: "jd-host-facts jd-small" }, head);
  const foot = svg("g", { class: "jd-host-foot", "aria-hidden": "true" }, node);
  /** @type {{shown: Element, title: Element} | null} */
  const warning = null;
  return { node, box, links, head, hit, name, facts, foot, warning };
}

const captionRoom = (/** @type {number} */ width, letter) => Math.floor((width - 20) / letter);

/** What moves only with the plan: box, ports and captions. */
export function layHost(frame, /** @type {HostPlan} */ place) {
  write(frame.node, "transform", `translate(${place.x},${place.y})`);
  write(frame.box, "width", place.width - 1);
  write(frame.box, "height", place.height - 1);
  write(frame.hit, "width", place.width - 3);
  write(frame.head, "data-key", `host ${place.host.name}`);
  frame.foot.replaceChildren();
  frame.warning = null;
  const edge = place.height - 1;
  const above = place.ports.length ? PORT.height / 2 + 6 : 9;
  place.captions.forEach((words, i) => {
    const y = edge - above - (place.captions.length - 1 - i) * 14;
    const isWarning = words.startsWith("⚠");
    const text = svg("text", { class: isWarning ? "jd-caption jd-warned" : "jd-caption", x: 10, y }, frame.foot);
    const shown = svg("tspan", {}, text);
    const title = svg("title", {}, text);
    if (isWarning) {
      frame.warning = { shown, title };
      return;
    }
    shown.textContent = clip(words, captionRoom(place.width, LETTER));
    title.textContent = words;
  });
  for (const port of place.ports) drawPort(frame.foot, port, edge);
}

/** @param {Element} parent @param {Port} port @param {number} edge */
function drawPort(parent, port, edge) {
  const node = svg("g", { class: "jd-port", transform: `translate(${port.x},${edge - PORT.height / 2})` }, parent);
  if (!port.isUp) node.setAttribute("data-down", "");
  if (port.isData) node.setAttribute("data-in-use", "");
  svg("title", {}, node).textContent = port.title;
  svg("rect", { width: port.width, height: PORT.height, rx: 3.5 }, node);
  if (port.isRdma) svg("path", { class: "jd-rdma", d: MARKS.rdma, transform: "translate(5,3)" }, node);
  const text = svg("text", { x: port.isRdma ? 16 : 6, y: 10.2 }, node);
  text.textContent = port.words;
}

/** What is odd of its GPUs, and how long ago; a tooltip that is open stays so. */
function updateWarnings({ warning }, /** @type {Host} */ host, /** @type {string} */ steady, /** @type {number} */ width) {
  if (!warning) return;
  write(warning.shown, "text", clip(`⚠ ${hostWarnings(host)}`, captionRoom(width, BOLD_LETTER)));
  write(warning.title, "text", `⚠ ${steady}`);
}

/** @param {ReturnType<typeof makeHost>} frame @param {Host} host @param {HostPlan} place */
export function updateHost(frame, host, { width, hasOneLine }) {
  write(frame.node, "data-host-state", host.state);
  const warnings = frame.warning ? steadyHostWarnings(host) : "";
  write(frame.node, "aria-label", [`host ${host.name}`, host.state, warnings].filter(Boolean).join(", "));
  updateWarnings(frame, host, warnings, width);
  const nameRoom = (width - 20) * (hasOneLine ? 0.45 : 1);
  const name = clip(host.name, Math.floor(nameRoom / NAME_LETTER));
  const room = width - 20 - (hasOneLine ? name.length * NAME_LETTER + 14 : 0);
  const numbers = hostNumbers(host);
  const facts = numbers.find((words) => words.length * LETTER <= room) ?? numbers[numbers.length - 1];
  write(frame.name, "text", name);
  write(frame.facts, "text", facts);
  write(frame.facts, "x", hasOneLine ? width - 11 : 10);
  write(frame.facts, "y", hasOneLine ? 18.5 : 33);
  write(frame.facts, "text-anchor", hasOneLine ? "end" : "start");
}
