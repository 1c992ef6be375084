/** The counts of the header, and the lines that say all about one seat or host. */

import { callsOf } from "./calls.js";
import { gpuFacts, hostFacts, nearestNics, rankFacts } from "./facts.js";
import { html, svg, written } from "./nodes.js";
import { seatsOf } from "./plan.js";
import { STATES, look } from "./words.js";

const HINT = "Point at a rank or a host, or walk with the arrow keys, to read everything known about it; Enter opens a rank.";
const SAY_EVERY_MS = 2000;
/** Ranks enter and leave collectives many times a second: that is one thing to be told of. */
const SAID_AS = { busy: "working", collective: "working" };

/** @param {Engine[]} engines @param {(state: string) => string} name @returns {Record<string, number>} */
function countBy(engines, name) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { state } of engines) counts[name(state)] = (counts[name(state)] ?? 0) + 1;
  return counts;
}

/** What a screen reader says, only when the words have changed and never twice within two seconds. */
function makeQuietVoice(/** @type {Element} */ parent) {
  const node = html("span", "jd-said", parent);
  node.setAttribute("aria-live", "polite");
  let [said, next, saidAt, waiting] = ["", "", -Infinity, 0];
  function speak() {
    waiting = 0;
    if (next === said || !node.isConnected) return;
    [said, saidAt] = [next, performance.now()];
    node.textContent = said;
  }
  return (/** @type {string} */ words) => {
    next = words;
    if (waiting || next === said) return;
    const wait = saidAt + SAY_EVERY_MS - performance.now();
    if (wait <= 0) speak();
    else waiting = setTimeout(speak, wait);
  };
}

/** @type {WeakMap<Element, {shown: Element, say: (words: string) => void, key: string}>} */
const summaries = new WeakMap();

/** How many ranks are in which state, glyph and words, written only when the words change. */
export function updateSummary(/** @type {Element} */ node, /** @type {Engine[]} */ engines) {
  let summary = summaries.get(node);
  if (!summary) {
    node.removeAttribute("aria-live");
    const shown = html("span", "jd-counts", node);
    summaries.set(node, (summary = { shown, say: makeQuietVoice(node), key: "" }));
  }
  const said = countBy(engines, (state) => SAID_AS[state] ?? look(state).word);
  summary.say(Object.entries(said).map(([word, count]) => `${count} ${word}`).sort().join(", "));
  const counts = countBy(engines, (state) => state);
  const names = [...Object.keys(STATES), ...Object.keys(counts).filter((name) => !(name in STATES))];
  const present = names.filter((name) => counts[name]);
  const words = present.map((name) => `${counts[name]} ${look(name).word}`);
  const key = words.join(" · ");
  if (summary.key === key) return;
  summary.key = key;
  summary.shown.replaceChildren();
  present.forEach((name, i) => {
    if (i) summary.shown.append(" · ");
    const count = html("span", "jd-count", summary.shown);
    count.dataset.state = name;
    const icon = svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, count);
    svg("path", { class: "jd-glyph", d: look(name).glyph }, icon);
    count.append(words[i]);
  });
}

/** @param {Element} parent @param {[string, boolean?][]} facts */
function writeFacts(parent, facts) {
  facts.forEach(([words, isImportant], i) => {
    if (i) parent.append(" · ");
    if (isImportant) html("b", "", parent).textContent = words;
    else parent.append(words);
  });
}

/** Facts of the seat (and its host) or of the host that a key names; empty if it is not there. */
function factsOf(/** @type {Topology} */ state, /** @type {string} */ key) {
  for (const host of state.hosts) {
    if (key === `host ${host.name}`) return [hostFacts(host)];
    const seat = seatsOf(host).find((each) => each.key === key);
    if (!seat) continue;
    const engine = host.engines.find((each) => each.rank === seat.rank);
    const gpus = host.gpus.filter((gpu) => seat.devices.includes(gpu.index));
    const isAwaited = engine !== undefined && callsOf(state).awaited.has(engine.rank);
    const own = engine ? rankFacts(engine, host, isAwaited) : [];
    const near = nearestNics(host, seat.devices);
    return [[...own, ...gpus.flatMap((gpu) => gpuFacts(gpu, host)), ...near], hostFacts(host)];
  }
  return [];
}

/** @param {Element} node @param {Topology} state @param {string} key */
export function updateDetail(node, state, key) {
  const lines = key ? factsOf(state, key) : [];
  const text = lines.length ? JSON.stringify(lines) : HINT;
  if (written.get(node) === text) return;
  written.set(node, text);
  node.replaceChildren();
  if (!lines.length) node.textContent = HINT;
  for (const facts of lines) writeFacts(html("div", "jd-fact-line", node), facts);
}
