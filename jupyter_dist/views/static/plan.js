/** Where hosts, seats and captions stand: pure, from a topology and a width. */

import { linkWords } from "./words.js";

export const ROOMY = { width: 100, height: 63, gap: 8, pad: 10, radius: 6, hostGap: 12 };
export const DENSE = { width: 24, height: 21, gap: 3, pad: 8, radius: 3, hostGap: 8 };
const HOST_MIN_WIDTH = 223;
export const ONE_LINE_HEAD = { height: 29, fits: 330 };
const TWO_LINE_HEAD = { height: 43 };
export const BUS_GAP = 26;

/** One seat per rank, then one per GPU that has no rank. @param {Host} host @returns {Seat[]} */
export function seatsOf(host) {
  const engines = [...host.engines].sort((a, b) => a.local_rank - b.local_rank);
  const taken = new Set(engines.map((engine) => engine.device));
  const seats = engines.map((engine) => {
    return { key: `rank ${engine.rank}`, rank: engine.rank, device: engine.device, x: 0, y: 0 };
  });
  for (const gpu of host.gpus) {
    if (taken.has(gpu.index)) continue;
    const key = `gpu ${gpu.index} of ${host.name}`;
    seats.push({ key, rank: null, device: gpu.index, x: 0, y: 0 });
  }
  return seats;
}

/** The one link that stands for all when every pair is joined alike. @param {Host} host */
function busOf(host) {
  const ends = new Set(host.links.flatMap((link) => [link.a, link.b]));
  const pairs = new Set(host.links.map(({ a, b }) => `${Math.min(a, b)}-${Math.max(a, b)}`));
  const kinds = new Set(host.links.map((link) => `${link.kind} ${link.lanes}`));
  const isComplete = pairs.size === (ends.size * (ends.size - 1)) / 2;
  return kinds.size === 1 && ends.size > 1 && isComplete ? host.links[0] : null;
}

/** Links that no single bus can stand for, counted by kind. @param {Host} host */
function linkCaption(host) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const link of host.links) counts[linkWords(link)] = (counts[linkWords(link)] ?? 0) + 1;
  const words = Object.entries(counts).map(([kind, n]) => `${kind}: ${n} pair${n > 1 ? "s" : ""}`);
  return words.join(" · ");
}

/** Place the seats of one host, relative to its corner. */
function planHost(/** @type {Host} */ host, /** @type {number} */ columns, dense) {
  const size = dense ? DENSE : ROOMY;
  const seats = seatsOf(host);
  const hasLinks = !dense && host.links.length > 0;
  const bus = hasLinks ? busOf(host) : null;
  columns = Math.max(1, Math.min(columns, seats.length));
  const inner = columns * (size.width + size.gap) - size.gap;
  const width = Math.max(HOST_MIN_WIDTH, 2 * size.pad + inner);
  const hasOneLine = dense || width >= ONE_LINE_HEAD.fits;
  let y = (hasOneLine ? ONE_LINE_HEAD : TWO_LINE_HEAD).height;
  seats.forEach((seat, i) => {
    const row = Math.floor(i / columns);
    if (i && i % columns === 0) {
      const gap = hasLinks && (!bus || row % 2 === 1) ? BUS_GAP : size.gap;
      y += size.height + gap;
    }
    seat.x = size.pad + (i % columns) * (size.width + size.gap);
    seat.y = y;
  });
  const rows = Math.ceil(seats.length / columns);
  const belowLast = hasLinks && (!bus || rows % 2 === 1) ? BUS_GAP - size.pad : 0;
  const caption = hasLinks && !bus ? linkCaption(host) : "";
  const height = y + size.height + belowLast + size.pad + (caption ? 14 : 0);
  return { host, x: 0, y: 0, width, height, columns, seats, bus, caption, hasOneLine };
}

/**
 * Place all hosts in rows that fit the width.
 * @param {Topology} state
 * @param {number} width
 * @returns {{dense: boolean, width: number, height: number, hosts: HostPlan[]}}
 */
export function plan(state, width) {
  const seatCount = state.hosts.reduce((n, host) => n + seatsOf(host).length, 0);
  const dense = seatCount > 64;
  const size = dense ? DENSE : ROOMY;
  const most = Math.max(1, ...state.hosts.map((host) => seatsOf(host).length));
  const preferred = dense ? (most > 16 ? 16 : 8) : state.hosts.length > 1 ? 4 : 8;
  const fitting = Math.floor((width - 2 * size.pad + size.gap) / (size.width + size.gap));
  const hosts = state.hosts.map((host) => planHost(host, Math.min(preferred, fitting), dense));
  let [x, y, rowHeight] = [0, 0, 0];
  for (const host of hosts) {
    if (x > 0 && x + host.width > width) {
      [x, y, rowHeight] = [0, y + rowHeight + size.hostGap, 0];
    }
    [host.x, host.y] = [x + 0.5, y + 0.5];
    x += host.width + size.hostGap;
    rowHeight = Math.max(rowHeight, host.height);
  }
  return { dense, width, height: y + rowHeight + 1, hosts };
}

/** What a plan depends on; while it stays the same nothing moves. @param {Topology} state */
export function shapeOf(state) {
  const host = (/** @type {Host} */ h) =>
    [
      h.name,
      h.engines.map((engine) => `${engine.rank}@${engine.device}`),
      h.gpus.length,
      h.links.map((link) => `${link.a}${link.kind}${link.lanes}-${link.b}`),
    ].join("|");
  return state.hosts.map(host).join("\n");
}
