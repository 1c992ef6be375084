/** What joins the GPUs of a host: one bus where all pairs are alike, arcs elsewhere. */

import { svg } from "./nodes.js";
import { BUS_GAP, ROOMY } from "./plan.js";
import { isNvlink, linkWords } from "./words.js";

/** Draw what joins the GPUs of a host: one bus where all pairs are alike, arcs elsewhere. */
export function drawLinks(/** @type {Element} */ parent, /** @type {HostPlan} */ place) {
  parent.replaceChildren();
  if (place.bus) drawBus(parent, place, place.bus);
  else if (place.caption) drawArcs(parent, place);
}

/** @param {Element} parent @param {number} x @param {number} y @param {string} words @param {string} kind */
function drawLabel(parent, x, y, words, kind) {
  const width = words.length * 5.5 + 12;
  svg("rect", { class: "jd-link-plate", x: x - width / 2, y: y - 7, width, height: 14 }, parent);
  const label = svg("text", { class: "jd-link-label", "data-kind": kind, x, y: y + 3.5 }, parent);
  label.textContent = words;
}

/** @param {Element} parent @param {HostPlan} place @param {Link} link */
function drawBus(parent, place, link) {
  const kind = isNvlink(link) ? "nvlink" : "pcie";
  const seats = place.seats.filter((seat) => seat.device !== null);
  const line = kind === "nvlink" ? Math.min(4, 1.2 + Math.sqrt(link.lanes) / 2) : 1.2;
  const levels = new Map();
  for (const seat of seats) {
    const row = Math.floor(place.seats.indexOf(seat) / place.columns);
    const isAbove = row % 2 === 0;
    const level = isAbove ? seat.y + ROOMY.height + BUS_GAP / 2 : seat.y - BUS_GAP / 2;
    const x = seat.x + ROOMY.width / 2;
    const d = isAbove ? `M${x},${seat.y + ROOMY.height}V${level}` : `M${x},${seat.y}V${level}`;
    svg("path", { class: "jd-link", "data-kind": kind, d, "stroke-width": line / 1.4 }, parent);
    levels.set(level, [...(levels.get(level) ?? []), x]);
  }
  const top = Math.min(...levels.keys());
  for (const [level, xs] of levels) {
    const from = levels.size > 1 ? 5 : Math.min(...xs);
    const d = `M${from},${level}H${Math.max(...xs)}` + (levels.size > 1 ? `M5,${top}V${level}` : "");
    svg("path", { class: "jd-link", "data-kind": kind, d, style: `stroke-width:${line}` }, parent);
  }
  const xs = levels.get(top);
  const middle = (Math.min(...xs) + Math.max(...xs)) / 2;
  drawLabel(parent, middle, top, `${linkWords(link)} all-to-all`, kind);
}

/** @param {Element} parent @param {HostPlan} place */
function drawArcs(parent, place) {
  const seatOf = new Map(place.seats.map((seat) => [seat.device, seat]).reverse());
  const hasNvlink = place.host.links.some(isNvlink);
  // Beside NVLink the slower paths are only counted in the caption: drawn, they hide the fast ones.
  for (const link of place.host.links.filter((each) => isNvlink(each) || !hasNvlink)) {
    const [a, b] = [seatOf.get(link.a), seatOf.get(link.b)].sort((p, q) => (p?.y ?? 0) - (q?.y ?? 0));
    if (!a || !b) continue;
    // Each end leans towards its peer, so that the arcs of one GPU leave it side by side.
    const lean = Math.sign(b.x - a.x) * 14;
    const [x1, x2] = [a.x + ROOMY.width / 2 + lean, b.x + ROOMY.width / 2 - lean];
    const y1 = a.y + ROOMY.height;
    const y2 = a.y === b.y ? y1 : b.y;
    const bend = a.y === b.y ? Math.min(27, 4 + Math.abs(x2 - x1) / 14) : (y2 - y1) / 2;
    const d = `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 + (a.y === b.y ? bend : -bend)} ${x2},${y2}`;
    const kind = isNvlink(link) ? "nvlink" : "pcie";
    const line = kind === "nvlink" ? Math.min(4, 0.9 + Math.sqrt(link.lanes) / 2) : 1;
    const path = svg("path", { class: "jd-link", "data-kind": kind, d, style: `stroke-width:${line}` }, parent);
    svg("title", {}, path).textContent = `GPU ${link.a} – GPU ${link.b}: ${linkWords(link)}`;
  }
  drawLabel(parent, place.width / 2, place.height - 12, place.caption, hasNvlink ? "nvlink" : "pcie");
}
