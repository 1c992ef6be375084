/** The counts of the header, and the lines that say all about one seat or host. */

import { callsOf } from "./calls.js";
import { gpuFacts, groupFacts, hostFacts, nearestNics, rankFacts } from "./facts.js";
import { html, svg, written } from "./nodes.js";
import { seatsOf } from "./plan.js";
import { SAID_AS, STATES, look, withoutTimes } from "./words.js";

const HINT = "Point at a rank or a host, or walk with the arrow keys, to read everything known about it; Enter opens a rank.";
const GROUP_HINT = "Point at a rank, or walk with the arrow keys, to read everything known about it; Enter shows the ranks of a group.";
const SAY_EVERY_MS = 2000;

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

/**
 * How many ranks are in which state, glyph and words, written only when the words change.
 * @param {Element} node @param {Engine[]} engines
 * @param {string} note what is the matter: read out with the counts
 */
export function updateSummary(node, engines, note) {
  let summary = summaries.get(node);
  if (!summary) {
    const shown = html("span", "jd-counts", node);
    shown.setAttribute("aria-hidden", "true"); // what is said instead changes less often
    summaries.set(node, (summary = { shown, say: makeQuietVoice(node), key: "" }));
  }
  const said = countBy(engines, (state) => SAID_AS[state] ?? look(state).word);
  const sentence = Object.entries(said).map(([word, count]) => `${count} ${word}`).sort().join(", ");
  summary.say(note ? `${sentence}. ${withoutTimes(note)}` : sentence);
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

/** Facts of the seat (and its host), of the host, or of the group that a key names; empty if it is not there. */
function factsOf(/** @type {Topology} */ state, /** @type {string} */ key, groups) {
  const group = groups.find((each) => each.key === key);
  if (group) return groupFacts(state.hosts.slice(group.first, group.first + group.count)).filter((facts) => facts.length);
  const rank = key.startsWith("rank ") ? Number(key.slice(5)) : null;
  for (const host of state.hosts) {
    if (key === `host ${host.name}`) return [hostFacts(host)];
    if (rank !== null && !host.engines.some((each) => each.rank === rank)) continue;
    const seat = seatsOf(host).find((each) => each.key === key);
    if (!seat) continue;
    const engine = host.engines.find((each) => each.rank === seat.rank);
    const gpus = host.gpus.filter((gpu) => seat.devices.includes(gpu.index));
    const isAwaited = engine !== undefined && callsOf(state).awaited.has(engine.rank);
    const own = engine ? rankFacts(engine, host, state.axes, isAwaited) : [];
    const near = nearestNics(host, seat.devices);
    return [[...own, ...gpus.flatMap((gpu) => gpuFacts(gpu, host)), ...near], hostFacts(host)];
  }
  return [];
}

/**
 * @param {Element} node @param {Topology} state @param {string} key
 * @param {{key: string, first: number, count: number}[]} [groups] of the picture
 */
export function updateDetail(node, state, key, groups = []) {
  const lines = key ? factsOf(state, key, groups) : [];
  const hint = groups.length ? GROUP_HINT : HINT;
  const text = lines.length ? JSON.stringify(lines) : hint;
  if (written.get(node) === text) return;
  written.set(node, text);
  node.replaceChildren();
  if (!lines.length) node.textContent = hint;
  for (const facts of lines) writeFacts(html("div", "jd-fact-line", node), facts);
}
