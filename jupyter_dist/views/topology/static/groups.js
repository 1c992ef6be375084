/**
 * Groups of hosts, each rank a tile, for clusters that are too large for a seat each. Pure.
 *
 * @typedef {{key: string, rank: number | null, at: number, x: number, y: number}} Tile `at`: its host's place
 *   in the topology; x and y within the group
 * @typedef {{key: string, first: number, count: number, name: string, x: number, y: number, width: number,
 *   height: number, side: number, tiles: Tile[], isOpen: boolean}} GroupPlan hosts `first` and the
 *   following, `count` of them; `side`: of a tile
 * @typedef {{pitch: number, columns: number, width: number, height: number}} Block the tiles of one host
 */

import { DENSE, planHosts, seatsOf } from "./plan.js";

const RANKS = 128;
const MOST_GROUPS = 64;
const LEAST_WIDTH = 130;
const HEAD = 36;
const PAD = 8;
const GAP = 6;
/** From one tile to the next, largest first: the first is taken with which the picture is not too high. */
const PITCHES = [10, 8, 6, 5];
const HIGHEST = 760;

/** How many hosts make a group: whole hosts, about as many ranks in each. */
function hostsOfGroup(/** @type {number} */ hosts, /** @type {number} */ seats) {
  let count = Math.max(1, Math.floor(RANKS / seats));
  while (hosts / count > MOST_GROUPS) count *= 2;
  return count;
}

/** @param {number} seats of the largest host @param {number} pitch @returns {Block} */
function blockOf(seats, pitch) {
  const columns = 2 ** Math.floor(Math.log2(Math.sqrt(2 * seats)));
  return { pitch, columns, width: columns * pitch + 3, height: Math.ceil(seats / columns) * pitch + 3 };
}

/** `node-000–015`: what the last name has in common with the first is left out. @param {Host[]} hosts */
function nameOf(hosts) {
  const [first, last] = [hosts[0].name, hosts[hosts.length - 1].name];
  if (first === last) return first;
  const stem = first.replace(/\d+$/, "");
  return `${first}–${last.startsWith(stem) ? last.slice(stem.length) : last}`;
}

/** Rows and columns of groups, and of hosts in a group. */
function gridOf(groups, inGroup, width, /** @type {Block} */ block) {
  const wanted = Math.max(LEAST_WIDTH, Math.ceil(Math.sqrt(inGroup)) * block.width + 2 * PAD);
  const columns = Math.max(1, Math.min(groups, Math.floor((width + GAP) / (wanted + GAP))));
  const widest = Math.max(wanted, inGroup * block.width + 2 * PAD);
  const each = Math.min(widest, Math.floor((width - 1 - (columns - 1) * GAP) / columns));
  const fitting = Math.max(1, Math.floor((each - 2 * PAD) / block.width));
  const lines = Math.ceil(inGroup / fitting);
  const height = HEAD + lines * block.height + PAD - 3;
  const total = Math.ceil(groups / columns) * (height + GAP);
  return { columns, width: each, height, total, inLine: Math.ceil(inGroup / lines), block };
}

/** @param {Seat[][]} seats of each host of a group @returns {Tile[]} */
function tilesOf(seats, first, { inLine, block }) {
  return seats.flatMap((own, i) => {
    const left = PAD + (i % inLine) * block.width;
    const top = HEAD + Math.floor(i / inLine) * block.height;
    return own.map(({ key, rank }, n) => ({
      key,
      rank,
      at: first + i,
      x: left + (n % block.columns) * block.pitch,
      y: top + Math.floor(n / block.columns) * block.pitch,
    }));
  });
}

/**
 * Groups in rows; the hosts of one that is open stand below its row, their ranks in seats.
 * @param {Topology} state
 * @param {number} width
 * @param {string} opened the key of the group that is open, or ""
 * @returns {Plan}
 */
export function planGroups({ hosts }, width, opened) {
  const seats = hosts.map(seatsOf);
  const most = seats.reduce((count, own) => Math.max(count, own.length), 1);
  const inGroup = hostsOfGroup(hosts.length, most);
  const count = Math.ceil(hosts.length / inGroup);
  const grids = PITCHES.map((pitch) => gridOf(count, Math.min(inGroup, hosts.length), width, blockOf(most, pitch)));
  const grid = grids.find(({ total }) => total <= HIGHEST) ?? grids[grids.length - 1];
  /** @type {GroupPlan[]} */
  const groups = [];
  /** @type {HostPlan[]} */
  let open = [];
  let y = 0;
  for (let row = 0; row * grid.columns < count; row++) {
    let below = 0;
    for (let i = row * grid.columns; i < Math.min(count, (row + 1) * grid.columns); i++) {
      const first = i * inGroup;
      const members = hosts.slice(first, first + inGroup);
      const key = `hosts ${members[0].name} to ${members[members.length - 1].name}`;
      const tiles = tilesOf(seats.slice(first, first + inGroup), first, grid);
      const x = (i % grid.columns) * (grid.width + GAP) + 0.5;
      const isOpen = key === opened;
      const size = { width: grid.width, height: grid.height, side: grid.block.pitch - 1 };
      groups.push({ key, first, count: members.length, name: nameOf(members), x, y: y + 0.5, ...size, tiles, isOpen });
      if (!isOpen) continue;
      const plan = planHosts(members, width, true, first);
      const top = y + grid.height + GAP;
      open = plan.hosts.map((place) => ({ ...place, y: place.y + top }));
      below = plan.height + DENSE.hostGap;
    }
    y += grid.height + GAP + below;
  }
  return { dense: true, width, height: Math.max(1, y - GAP + 1), hosts: open, groups, network: null, grid: null };
}

/** The tile at a point of the picture, if one is there. @param {Plan} plan @param {number} x @param {number} y */
export function tileAt(plan, x, y) {
  const group = plan.groups.find((each) => x >= each.x && x < each.x + each.width && y >= each.y && y < each.y + each.height);
  return group?.tiles.find((tile) => {
    const [right, down] = [x - group.x - tile.x, y - group.y - tile.y];
    return right >= 0 && down >= 0 && right <= group.side + 1 && down <= group.side + 1;
  });
}
