/** The frames of hosts in a grid by axes, and the names of hosts, rows and columns. */

import { svg } from "./nodes.js";

/** @param {Element} parent @param {Grid | null} grid */
export function drawFrames(parent, grid) {
  parent.replaceChildren();
  for (const { host, x, y, width, height } of grid?.frames ?? []) {
    const node = svg("g", { class: "jd-host", "data-host-state": host.state, "data-key": `host ${host.name}` }, parent);
    svg("rect", { class: "jd-host-box", x, y, width, height, rx: 6 }, node);
  }
  for (const { x, y, words, title, host, isEnd } of grid?.labels ?? []) {
    const text = svg("text", { class: host ? "jd-small" : "jd-axis", x, y, "text-anchor": isEnd ? "end" : "start" }, parent);
    if (host) text.setAttribute("data-key", `host ${host}`);
    text.textContent = words;
    if (words !== title) svg("title", {}, text).textContent = title;
  }
}
