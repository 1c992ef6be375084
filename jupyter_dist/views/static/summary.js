/** The counts of the header, and the line that says all about one seat. */

import { html, svg, written } from "./nodes.js";
import { seatsOf } from "./plan.js";
import { STATES, gpuFacts, look, rankFacts } from "./words.js";

const HINT = "Point at a rank, or walk with the arrow keys, to read everything known about it.";

/** How many ranks are in which state, glyph and words, written only when the words change. */
export function updateSummary(/** @type {Element} */ node, /** @type {Engine[]} */ engines) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { state } of engines) counts[state] = (counts[state] ?? 0) + 1;
  const names = [...Object.keys(STATES), ...Object.keys(counts).filter((name) => !(name in STATES))];
  const present = names.filter((name) => counts[name]);
  const words = present.map((name) => `${counts[name]} ${look(name).word}`);
  const key = words.join(" · ");
  if (written.get(node) === key) return;
  written.set(node, key);
  node.replaceChildren();
  present.forEach((name, i) => {
    if (i) node.append(" · ");
    const count = html("span", "jd-count", node);
    count.dataset.state = name;
    const icon = svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, count);
    svg("path", { class: "jd-glyph", d: look(name).glyph }, icon);
    count.append(words[i]);
  });
}

/** @param {Element} node @param {Topology} state @param {string} key */
export function updateDetail(node, state, key) {
  for (const host of state.hosts) {
    for (const { key: each, rank, device } of key ? seatsOf(host) : []) {
      if (each !== key) continue;
      const engine = host.engines.find((candidate) => candidate.rank === rank);
      const gpu = host.gpus.find((candidate) => candidate.index === device);
      const facts = [...(engine ? rankFacts(engine, host) : []), ...(gpu ? gpuFacts(gpu, host) : [])];
      node.replaceChildren();
      facts.forEach(([words, isImportant], i) => {
        if (i) node.append(" · ");
        if (isImportant) html("b", "", node).textContent = words;
        else node.append(words);
      });
      return;
    }
  }
  node.textContent = HINT;
}
