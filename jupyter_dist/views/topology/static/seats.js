/** The nodes of a seat (a rank on its GPUs, or a GPU without a rank), and what is written on them. */

import { warningsOf } from "./facts.js";
import { svg, write } from "./nodes.js";
import { DENSE, ROOMY } from "./plan.js";
import { steadyWarnings } from "./steady.js";
import { FREE, LATE_BEAT_S, MARKS, bytes, bytesOf, clip, doing, hasNumbers, look, ranges, seconds, share } from "./words.js";

const BAR = { x: 9, y: 53, width: ROOMY.width - 18, height: 4 };

/** @param {Element} node @param {Record<string, string | number>} attributes */
function setAll(node, attributes) {
  for (const name in attributes) node.setAttribute(name, String(attributes[name]));
}

/** One upright column for each GPU of the seat, filled as far as the GPU is busy. */
function makeColumns(parent, /** @type {Seat} */ seat, { width, height, radius }) {
  const count = Math.max(1, seat.devices.length);
  const inner = (width - 2 - (count - 1)) / count;
  return Array.from({ length: count }, (_, i) => {
    const x = 1 + i * (inner + 1);
    const rx = Math.min(radius - 1, inner / 2);
    // Upside down, so that only the height is written.
    const transform = `translate(0,${height - 1}) scale(1,-1)`;
    return svg("rect", { class: "jd-use", x, transform, width: inner, height: 0, rx }, parent);
  });
}

/** The nodes of one seat. @param {Seat} seat @param {boolean} dense */
export function makeCell(seat, dense) {
  const size = dense ? DENSE : ROOMY;
  const { width, height, radius: rx } = size;
  const node = svg("g", { class: dense ? "jd-cell jd-dense" : "jd-cell", role: "option", tabindex: -1 });
  node.setAttribute("aria-selected", "false");
  node.setAttribute("data-key", seat.key);
  if (seat.rank !== null) node.setAttribute("data-rank", String(seat.rank));
  svg("rect", { class: "jd-box", width, height, rx }, node);
  const columns = makeColumns(node, seat, size);
  const glyph = svg("path", { class: "jd-glyph" }, node);
  const number = svg("text", {}, node);
  const cell = { node, seat, dense, glyph, number, columns, ...size, ...(dense ? {} : makeWords(node, seat)) };
  setAll(glyph, { transform: dense ? "translate(8.4,11.6) scale(0.6)" : "translate(9,7)" });
  const place = { class: "jd-rank", x: seat.rank === null ? 9 : 26, y: 18.5 };
  setAll(number, dense ? { class: "jd-dense-rank", x: 12, y: 9.2 } : place);
  return cell;
}

/** What few seats need is made when it is needed: each node costs time whenever a state changes. */
function addMarks(cell, isAwaited, isWarned) {
  const { width, height, radius } = cell.dense ? DENSE : ROOMY;
  if (isAwaited && !cell.awaited) {
    const inset = cell.dense ? 2.2 : 3.5;
    const size = { width: width - 2 * inset, height: height - 2 * inset, rx: radius - 2 };
    cell.awaited = svg("rect", { class: "jd-awaited", x: inset, y: inset, ...size }, cell.node);
  }
  if (isWarned && !cell.warning) {
    const transform = cell.dense ? "translate(15.5,12) scale(0.75)" : `translate(${width - 8},-6)`;
    cell.warning = svg("g", { class: "jd-warning", transform }, cell.node);
    svg("path", { class: "jd-warning-plate", d: MARKS.plate }, cell.warning);
    svg("path", { class: "jd-warning-sign", d: MARKS.warning }, cell.warning);
  }
}

/** The outline of the seat or group that has the focus, made when it gets it. */
export function addRing(cell) {
  cell.ring ??= svg("rect", { class: "jd-ring", x: -3, y: -3, rx: cell.radius + 2 }, cell.node);
  setAll(cell.ring, { width: cell.width + 6, height: cell.height + 6 });
}

/** The words and the memory bar, for which only a large seat has room. */
function makeWords(node, /** @type {Seat} */ seat) {
  const shared = seat.isShared ? MARKS.shared : "";
  svg("path", { class: "jd-shared", d: shared, transform: "translate(83,25)" }, node);
  const parts = {
    device: svg("text", { class: "jd-value jd-small", x: 83, y: 16.5 }, node),
    beat: svg("circle", { class: "jd-beat", cx: 90, cy: 13.2, r: 2.6 }, node),
    late: svg("text", { class: "jd-late", x: 92, y: 16.5 }, node),
    doing: svg("text", { class: "jd-doing", x: 9, y: 33 }, node),
    used: svg("text", { class: "jd-small jd-used", x: 9, y: 47.5 }, node),
    memory: svg("text", { class: "jd-value jd-small", x: 91, y: 47.5 }, node),
  };
  svg("rect", { class: "jd-track", ...BAR, rx: 2 }, node);
  return { ...parts, fill: svg("rect", { class: "jd-fill", ...BAR, width: 0, rx: 2 }, node) };
}

/** Everything of a seat in words that stay the same while its state does. */
function label(seat, engine, host, warnings, isAwaited) {
  const on = seat.devices.length > 1 ? `GPUs ${ranges(seat.devices)}` : `GPU ${seat.devices[0]}`;
  if (!engine) return [`${on} of ${host.name}: ${FREE.word}`, ...warnings].join(", ");
  const where = seat.where && ` (${seat.where})`;
  const parts = [`rank ${engine.rank}${where} on ${host.name}: ${look(engine.state).word}`];
  if (isAwaited) parts.push("awaited by other ranks");
  if (engine.cell) parts.push(engine.cell);
  if (engine.reason) parts.push(engine.reason);
  if (seat.devices.length) parts.push(seat.isShared ? `${on}, shared` : on);
  if (hasNumbers(engine) && engine.pid && engine.beat_age_s > LATE_BEAT_S) parts.push("heartbeat late");
  if (warnings.length) parts.push(`warning: ${warnings.join(", ")}`);
  return parts.join(", ");
}

/**
 * Write what changed of one seat.
 * @param {Engine | undefined} engine
 * @param {Map<number, Gpu>} gpus of its host
 */
export function updateCell(cell, engine, host, gpus, isAwaited) {
  const { seat } = cell;
  const mine = seat.devices.map((index) => gpus.get(index)).filter(Boolean);
  const warnings = mine.flatMap((gpu) => (warningsOf(gpu).length ? steadyWarnings(gpu) : []));
  const state = engine ? engine.state : "free";
  addMarks(cell, isAwaited, warnings.length > 0);
  write(cell.node, "data-state", state);
  write(cell.node, "data-awaited", isAwaited ? "yes" : "no");
  write(cell.node, "data-warned", warnings.length ? "yes" : "no");
  write(cell.glyph, "d", engine ? look(state).glyph : FREE.glyph);
  write(cell.number, "text", engine ? String(engine.rank) : cell.dense ? "–" : `GPU ${seat.devices[0]}`);
  write(cell.node, "aria-label", label(seat, engine, host, warnings, isAwaited));
  updateColumns(cell, engine, mine);
  if (!cell.dense) updateWords(cell, engine, host, mine, isAwaited);
}

/** How busy each GPU of the seat is; without GPUs, its process. */
function updateColumns(cell, engine, /** @type {Gpu[]} */ mine) {
  const own = engine && hasNumbers(engine) ? engine.cpu_percent : 0;
  // In a small seat, steps that nobody sees would only cost time.
  const step = cell.dense ? 4 : 1;
  cell.columns.forEach((column, i) => {
    const percent = mine.length ? (mine[i]?.utilisation_percent ?? 0) : own;
    const part = (cell.height - 2) * share(percent, 100);
    write(column, "height", Math.round(part / step) * step);
  });
}

function updateWords(cell, engine, host, mine, isAwaited) {
  const hasBeat = Boolean(engine && hasNumbers(engine) && engine.pid);
  const isLate = hasBeat && engine.beat_age_s > LATE_BEAT_S;
  const fresh = hasBeat ? Math.max(0.2, 1 - engine.beat_age_s / (2 * LATE_BEAT_S)).toFixed(1) : 0;
  const numbers = engine ? ranges(cell.seat.devices) : "";
  const on = numbers && (numbers.length > 1 && engine.rank > 99 ? numbers : `GPU ${numbers}`);
  write(cell.doing, "text", clip(engine ? doing(engine, isAwaited) : FREE.word, cell.seat.isShared ? 13 : 16));
  write(cell.beat, "opacity", isLate ? 0 : fresh);
  write(cell.late, "text", isLate ? `♥ ${seconds(engine.beat_age_s)}` : "");
  write(cell.device, "text", isLate ? "" : on);
  const sum = (name) => mine.reduce((total, gpu) => total + gpu[name], 0);
  const isRunning = engine && hasNumbers(engine);
  if (mine.length) {
    const [used, total] = [sum("memory_used_bytes"), sum("memory_total_bytes")];
    write(cell.used, "text", `${Math.round(sum("utilisation_percent") / mine.length)}%`);
    write(cell.memory, "text", bytesOf(used, total, "/"));
    write(cell.fill, "width", (BAR.width * share(used, total)).toFixed(1));
  } else {
    write(cell.used, "text", isRunning ? `cpu ${Math.round(engine.cpu_percent)}%` : "–");
    write(cell.memory, "text", isRunning ? bytes(engine.rss_bytes) : "");
    const part = isRunning ? share(engine.rss_bytes, host.memory_total_bytes) : 0;
    write(cell.fill, "width", (BAR.width * part).toFixed(1));
  }
}
