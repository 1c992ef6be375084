/**
 * Which lines join the seats of a host: one for each group of GPUs that are joined alike, smaller
 * groups nearer to the seats, so that the first line two seats share is the path between them. Pure.
 *
 * @typedef {{x: number, from: number, to: number, seats: Set<number>}} Stem from a seat, or from the
 *   line of a smaller group, to the line
 * @typedef {{y: number, stems: Stem[]}} Line the part of a route in one row of seats
 * @typedef {{group: LinkGroup | null, seats: Set<number>, lines: Line[], rail: number | null}} Route
 *   `rail`: x of what joins its lines, if it has several; `group` null: nothing is known to join them
 * @typedef {{group: LinkGroup, seats: Set<number>, parts: Node[], level: number}} Node
 */

import { isNvlink } from "./facts.js";

export const LEVEL = 15;
export const FIRST_LEVEL = 12;
const RAIL_STEP = 6;

/** @param {Set<number>} small @param {Set<number>} large */
const isWithin = (small, large) => small.size <= large.size && [...small].every((one) => large.has(one));

/** Groups that are the path of some two seats, smallest first and NVLink before all others. */
export function usedGroups(/** @type {Host} */ host, /** @type {Seat[]} */ seats) {
  const sorted = [...host.links].sort((a, b) => {
    return Number(isNvlink(b)) - Number(isNvlink(a)) || a.gpus.length - b.gpus.length;
  });
  /** @type {{group: LinkGroup, seats: Set<number>}[]} */
  const used = [];
  for (const group of sorted) {
    const on = seats.map((seat, i) => (seat.devices.some((gpu) => group.gpus.includes(gpu)) ? i : -1));
    const found = new Set(on.filter((i) => i >= 0));
    if (found.size < 2) continue;
    const isNeedless = used.some((each) => isNvlink(each.group) && !isNvlink(group) && isWithin(found, each.seats));
    const isSame = used.some((each) => each.seats.size === found.size && isWithin(found, each.seats));
    if (!isNeedless && !isSame) used.push({ group, seats: found });
  }
  return used;
}

/**
 * The tree of groups, or arcs where pairs of NVLink overlap: no tree can show those.
 * @returns {{roots: Node[], arcs: {group: LinkGroup, seats: Set<number>}[], levels: number}}
 */
export function linkTree(/** @type {Host} */ host, /** @type {Seat[]} */ seats) {
  const used = usedGroups(host, seats);
  const overlaps = (a, b) =>
    a !== b && [...a.seats].some((i) => b.seats.has(i)) && !isWithin(a.seats, b.seats) && !isWithin(b.seats, a.seats);
  const nvlink = used.filter(({ group }) => isNvlink(group));
  if (nvlink.some((a) => nvlink.some((b) => overlaps(a, b)))) {
    return { roots: [], arcs: nvlink.filter((each) => each.seats.size === 2), levels: 0 };
  }
  /** @type {Node[]} */
  let roots = [];
  for (const each of [...used].sort((a, b) => a.seats.size - b.seats.size)) {
    if (roots.some((root) => overlaps(root, each))) continue;
    const parts = roots.filter((root) => isWithin(root.seats, each.seats));
    roots = roots.filter((root) => !parts.includes(root));
    roots.push({ ...each, parts, level: 1 + Math.max(0, ...parts.map((part) => part.level)) });
  }
  return { roots, arcs: [], levels: Math.max(0, ...roots.map((root) => root.level)) };
}

/** Groups that reach over several rows need a rail at the left. @param {Node[]} roots */
export function railCount(roots, columns) {
  const rows = (/** @type {Node} */ node) => new Set([...node.seats].map((i) => Math.floor(i / columns))).size;
  const count = (/** @type {Node} */ node) => Math.max(0, ...node.parts.map(count)) + (rows(node) > 1 ? 1 : 0);
  return Math.max(0, ...roots.map(count));
}

/** A line in the gap below a row, or for a single group of two rows in the gap they share. */
function lineOf(node, seat, row, size, isShared) {
  const below = seat.y + size.height;
  if (isShared && row % 2 === 1) return { from: seat.y, to: seat.y - FIRST_LEVEL };
  return { from: below, to: below + FIRST_LEVEL + (node.level - 1) * LEVEL };
}

/**
 * Where the lines of a tree stand.
 * @param {Node[]} roots
 * @param {Seat[]} seats with their places
 * @param {{columns: number, pad: number, size: {width: number, height: number}}} grid
 * @returns {Route[]} smaller groups before larger ones
 */
export function routesOf(roots, seats, { columns, pad, size }) {
  const routes = [];
  const isShared = roots.length === 1 && !roots[0].parts.length;
  /** Add the route of a node, and tell where the line of a larger group can join it. */
  function add(/** @type {Node} */ node, depth) {
    const inner = node.parts.map((part) => add(part, depth + 1));
    const within = new Set(node.parts.flatMap((part) => [...part.seats]));
    /** @type {Map<number, Line>} */
    const lines = new Map();
    const put = (row, y, stem) => {
      if (!lines.has(y)) lines.set(y, { y, stems: [] });
      lines.get(y).stems.push(stem);
    };
    for (const i of node.seats) {
      if (within.has(i)) continue;
      const row = Math.floor(i / columns);
      const { from, to } = lineOf(node, seats[i], row, size, isShared);
      put(row, to, { x: seats[i].x + size.width / 2, from, to, seats: new Set([i]) });
    }
    inner.forEach((joint) => {
      const to = joint.bottom + FIRST_LEVEL + (node.level - 1) * LEVEL;
      put(joint.row, to, { x: joint.x, from: joint.y, to, seats: joint.seats });
    });
    const ordered = [...lines.values()].sort((a, b) => a.y - b.y);
    const hasRail = ordered.length > 1;
    const rail = hasRail ? pad - 5 - (railDepth(node, columns) - 1) * RAIL_STEP : null;
    routes.push({ group: node.group, seats: node.seats, lines: ordered, rail });
    const last = ordered[ordered.length - 1];
    const xs = last.stems.map((stem) => stem.x);
    const row = Math.max(...[...node.seats].map((i) => Math.floor(i / columns)));
    const x = (Math.min(...xs) + Math.max(...xs)) / 2;
    return { row, x, y: last.y, bottom: seats[row * columns].y + size.height, seats: node.seats };
  }
  roots.forEach((root) => add(root, 0));
  return routes;
}

/** How many rails stand inside that of a group, its own counted. @param {Node} node */
const railDepth = (node, columns) => Math.max(1, railCount([node], columns));

/** The line that lights up where nothing is known to join the seats: just below each row. */
export function plainRoute(/** @type {Seat[]} */ seats, { pad, size }) {
  /** @type {Line[]} */
  const lines = [];
  seats.forEach((seat, i) => {
    const from = seat.y + size.height;
    const to = from + 4;
    if (lines.at(-1)?.y !== to) lines.push({ y: to, stems: [] });
    lines.at(-1).stems.push({ x: seat.x + size.width / 2, from, to, seats: new Set([i]) });
  });
  return { group: null, seats: new Set(seats.keys()), lines, rail: lines.length > 1 ? pad - 5 : null };
}

/** The part of a route that joins the lit seats, as path data; empty if it joins none of them. */
export function litPath(/** @type {Route} */ route, /** @type {Set<number>} */ lit) {
  const isLit = (/** @type {Stem} */ stem) => [...stem.seats].some((i) => lit.has(i));
  const lines = route.lines.map((line) => ({ y: line.y, all: line.stems, stems: line.stems.filter(isLit) }));
  const count = lines.reduce((n, line) => n + line.stems.length, 0);
  const goesOn = [...lit].some((i) => !route.seats.has(i));
  if (!count || (count === 1 && !goesOn)) return "";
  const touched = lines.filter((line) => line.stems.length);
  const last = route.lines[route.lines.length - 1];
  const hasRail = route.rail !== null && (touched.length > 1 || (goesOn && touched[0].y !== last.y));
  const parts = [];
  for (const { y, all, stems } of touched) {
    const xs = stems.map((stem) => stem.x);
    if (hasRail) xs.push(route.rail);
    // A larger group joins this one in the middle of its last line.
    if (goesOn && y === last.y) xs.push(...middleOf(all));
    for (const stem of stems) parts.push(`M${stem.x},${stem.from}V${stem.to}`);
    parts.push(`M${Math.min(...xs)},${y}H${Math.max(...xs)}`);
  }
  if (hasRail) {
    const ys = touched.map((line) => line.y);
    if (goesOn) ys.push(last.y);
    parts.push(`M${route.rail},${Math.min(...ys)}V${Math.max(...ys)}`);
    if (goesOn && !touched.some((line) => line.y === last.y)) {
      parts.push(`M${route.rail},${last.y}H${middleOf(last.stems)[0]}`);
    }
  }
  return parts.join("");
}

/** @param {Stem[]} stems @returns {[number]} */
function middleOf(stems) {
  const xs = stems.map((stem) => stem.x);
  return [(Math.min(...xs) + Math.max(...xs)) / 2];
}
