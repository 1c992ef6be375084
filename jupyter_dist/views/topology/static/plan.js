/**
 * Where hosts, seats, lines, ports and captions stand: pure, from hosts and a width.
 *
 * @typedef {{key: string, rank: number | null, devices: number[], isShared: boolean,
 *   x: number, y: number, at: number, where: string}} Seat `at`: the place of its host in the topology; `where`: along
 *   which axes it is, where that is drawn
 * @typedef {{words: string, isRdma: boolean, isUp: boolean, isData: boolean, title: string,
 *   x: number, width: number}} Port
 * @typedef {{host: Host, at: number, x: number, y: number, width: number, height: number, columns: number,
 *   pad: number, seats: Seat[], routes: Route[], plain: Route | null, arcs: object[],
 *   captions: string[], ports: Port[], hasOneLine: boolean}} HostPlan
 * @typedef {{dense: boolean, width: number, height: number, hosts: HostPlan[], groups: GroupPlan[],
 *   network: Network | null, grid: Grid | null}} Plan `at`, above: the place of a host in the topology
 */

import { alike, hostWarnings, linkWords } from "./facts.js";
import { PORT, networkOf, portsOf } from "./ports.js";
import { FIRST_LEVEL, LEVEL, linkTree, plainRoute, railCount, routesOf, usedGroups } from "./routes.js";
import { devicesOf, ranges } from "./words.js";

export const ROOMY = { width: 100, height: 62, gap: 8, pad: 10, radius: 6, hostGap: 12 };
export const DENSE = { width: 24, height: 21, gap: 3, pad: 8, radius: 3, hostGap: 8 };
/** Two seats side by side; a place that is a little narrower shows them a little smaller. */
const TWO_COLUMNS = 239;
export const SMALLEST_SCALE = 0.79;
const HOST_MIN_WIDTH = 228;
const ONE_LINE_HEAD = { height: 29, fits: 400 };
const TWO_LINE_HEAD = { height: 43 };
const CAPTION = 14;
const NETWORK_GAP = 34;
const RAIL_STEP_OF_HOST = 6;

/** One seat per rank, then one per GPU that has no rank. @param {Host} host @returns {Seat[]} */
export function seatsOf(host) {
  const engines = [...host.engines].sort((a, b) => a.local_rank - b.local_rank);
  /** @type {Map<number, number>} */
  const users = new Map();
  for (const engine of engines) for (const gpu of devicesOf(engine)) users.set(gpu, (users.get(gpu) ?? 0) + 1);
  const seats = engines.map((engine) => {
    const devices = devicesOf(engine);
    const isShared = devices.some((gpu) => users.get(gpu) > 1);
    return { key: `rank ${engine.rank}`, rank: engine.rank, devices, isShared, x: 0, y: 0, at: 0, where: "" };
  });
  for (const { index } of host.gpus) {
    if (users.has(index)) continue;
    const key = `gpu ${index} of ${host.name}`;
    seats.push({ key, rank: null, devices: [index], isShared: false, x: 0, y: 0, at: 0, where: "" });
  }
  return seats;
}

/** Groups of one kind, as a caption names them. @param {LinkGroup[]} groups @param {Host} host */
function linkCaption(groups, host) {
  const words = linkWords(groups[0]);
  if (groups[0].gpus.length === host.gpus.length) return `${words} all-to-all`;
  if (groups.every((group) => group.gpus.length === 2)) {
    return `${words}: ${groups.length} pair${groups.length > 1 ? "s" : ""}`;
  }
  return `${words}: ${groups.map((group) => ranges(group.gpus)).join("; ")}`;
}

/** Lines of words at the foot of a host, warnings first. @param {Host} host @param {LinkGroup[]} undrawn */
function captionsOf(host, undrawn) {
  const warnings = hostWarnings(host);
  const links = alike(undrawn, linkWords).map((groups) => linkCaption(groups, host));
  return [warnings && `⚠ ${warnings}`, links.join(" · ")].filter(Boolean);
}

/** Put seats into rows. @returns {number} where the last row and its lines end */
function placeSeats(seats, { columns, pad, size, head, below }) {
  let y = head;
  seats.forEach((seat, i) => {
    const row = Math.floor(i / columns);
    if (i && i % columns === 0) y += size.height + below(row - 1, false);
    seat.x = pad + (i % columns) * (size.width + size.gap);
    seat.y = y;
  });
  const last = Math.max(0, Math.ceil(seats.length / columns) - 1);
  return y + (seats.length ? size.height : 0) + below(last, true);
}

/** Place the seats of one host, relative to its corner. */
function planHost(/** @type {Host} */ host, /** @type {number} */ room, preferred, dense) {
  const size = dense ? DENSE : ROOMY;
  const seats = seatsOf(host);
  const tree = linkTree(host, dense ? [] : seats);
  const fitting = (pad) => Math.floor((room - pad - size.pad + size.gap) / (size.width + size.gap));
  let columns = Math.max(1, Math.min(preferred, fitting(size.pad), seats.length));
  const pad = size.pad + Math.max(0, railCount(tree.roots, columns) - 1) * RAIL_STEP_OF_HOST;
  columns = Math.max(1, Math.min(columns, fitting(pad)));
  const inner = columns * (size.width + size.gap) - size.gap;
  const needed = pad + size.pad + inner;
  const width = Math.max(needed, Math.min(HOST_MIN_WIDTH, room));
  const hasOneLine = dense || width >= ONE_LINE_HEAD.fits;
  const head = (hasOneLine ? ONE_LINE_HEAD : TWO_LINE_HEAD).height;
  const isOneBus = tree.roots.length === 1 && !tree.roots[0].parts.length;
  const gapOfLines = tree.levels ? 2 * FIRST_LEVEL + (tree.levels - 1) * LEVEL : tree.arcs.length ? 34 : size.gap;
  const below = (row, isLast) => {
    if (isOneBus && row % 2 === 1) return isLast ? 0 : size.gap;
    return isLast && gapOfLines === size.gap ? 0 : isLast ? gapOfLines - 6 : gapOfLines;
  };
  const end = placeSeats(seats, { columns, pad, size, head, below });
  const grid = { columns, pad, size };
  const routes = routesOf(tree.roots, seats, grid);
  const areJoined = routes.some((route) => route.seats.size === seats.length);
  const plain = dense || areJoined || !seats.length ? null : plainRoute(seats, grid);
  const captions = captionsOf(host, tree.levels > 0 ? [] : usedGroups(host, seats).map(({ group }) => group));
  const ports = dense ? [] : portsOf(host, width);
  const height = end + captions.length * CAPTION + size.pad + (ports.length ? PORT.height / 2 + 2 : 0);
  return { host, at: 0, x: 0, y: 0, width, height, columns, pad, seats, routes, plain, arcs: tree.arcs, captions, ports, hasOneLine };
}

/** Put hosts into rows that fit the width, those of a row equally high. @param {HostPlan[]} hosts */
function placeHosts(hosts, width, size, left, below) {
  /** @type {HostPlan[][]} */
  const rows = [];
  let x = Infinity;
  for (const host of hosts) {
    if (x > left && x + host.width > width) {
      rows.push([]);
      x = left;
    }
    host.x = x + 0.5;
    x += host.width + size.hostGap;
    rows[rows.length - 1].push(host);
  }
  let y = 0;
  for (const row of rows) {
    const height = Math.max(...row.map((host) => host.height));
    for (const host of row) [host.y, host.height] = [y + 0.5, height];
    y += height + below;
  }
  return { rows, height: Math.max(0, y - below) };
}

/**
 * Place hosts in rows that fit the width, their seats roomy, or small and without lines.
 * @param {Host[]} hosts
 * @param {number} width
 * @param {boolean} dense
 * @param {number} [first] the place of the first of them in the topology
 * @returns {Plan}
 */
export function planHosts(hosts, width, dense, first = 0) {
  const most = hosts.reduce((count, host) => Math.max(count, seatsOf(host).length), 1);
  const size = dense ? DENSE : ROOMY;
  const preferred = dense ? (most > 16 ? 16 : 8) : hosts.length > 1 ? 4 : 8;
  const hasNetwork = !dense && hosts.length > 1;
  const below = hasNetwork ? NETWORK_GAP : size.hostGap;
  const make = (left) => {
    const places = hosts.map((host, i) => ({ ...planHost(host, width - left - 1, preferred, dense), at: first + i }));
    for (const { at, seats } of places) for (const seat of seats) seat.at = at;
    return { places, ...placeHosts(places, width, size, left, below) };
  };
  let made = make(0);
  // Several rows of hosts need room at the left for the line that joins their networks.
  const left = hasNetwork && made.rows.length > 1 ? 9 : 0;
  if (left) made = make(left);
  const network = hasNetwork ? networkOf(made.rows) : null;
  const hasPorts = made.places.some((host) => host.ports.length);
  const foot = network ? 26 : hasPorts ? PORT.height / 2 + 1 : 1;
  return { dense, width, height: made.height + foot, hosts: made.places, groups: [], network, grid: null };
}

/** How much smaller than planned a place of this width is drawn. @param {number} width */
export function scaleFor(width) {
  return width < TWO_COLUMNS && width >= TWO_COLUMNS * SMALLEST_SCALE ? width / TWO_COLUMNS : 1;
}

/** What a plan depends on; while it stays the same nothing moves. @param {Topology} state */
export function shapeOf(state) {
  const host = (/** @type {Host} */ h) =>
    [
      h.name,
      h.interface,
      h.interface_mbps,
      h.engines.map((engine) => `${engine.rank}@${devicesOf(engine)}`),
      h.gpus.length,
      hostWarnings(h) !== "",
      h.links.map((link) => `${link.kind}${link.lanes ?? 0}:${link.gpus}`),
      (h.nics ?? []).map((nic) => `${nic.name}${nic.speed_mbps}${nic.rdma}${nic.is_up}`),
    ].join("|");
  return state.hosts.map(host).join("\n");
}
