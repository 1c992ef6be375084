/** Which picture there is room for: roomy seats with lines, small seats, or groups of hosts. Pure. */

import { planAxes } from "./axes.js";
import { planGroups } from "./groups.js";
import { planHosts } from "./plan.js";
import { devicesOf } from "./words.js";

/** More seats than these, or a higher picture, and the next smaller one is drawn. */
export const MOST_ROOMY = 64;
export const MOST_DENSE = 512;
const MOST_HOSTS = 64;
const HIGHEST_ROOMY = 1500;
const HIGHEST_DENSE = 1200;

/** @param {Host[]} hosts how many ranks, and GPUs without one, they have */
export function countSeats(hosts) {
  return hosts.reduce((sum, host) => {
    const taken = host.gpus.length ? new Set(host.engines.flatMap(devicesOf)) : new Set();
    return sum + host.engines.length + host.gpus.filter((gpu) => !taken.has(gpu.index)).length;
  }, 0);
}

/**
 * Place everything, as large as there is room.
 * @param {Topology} state
 * @param {number} width
 * @param {string} opened the key of the group that is open, or ""
 * @param {string} across the axis by which ranks are arranged; empty: they are by hosts
 * @returns {Plan}
 */
export function plan(state, width, opened = "", across = "") {
  const { hosts } = state;
  const seats = countSeats(hosts);
  if (across) {
    const roomy = seats <= MOST_ROOMY ? planAxes(state, width, false, across) : null;
    return roomy && roomy.height <= HIGHEST_ROOMY ? roomy : planAxes(state, width, true, across);
  }
  if (seats <= MOST_ROOMY) {
    const roomy = planHosts(hosts, width, false);
    if (roomy.height <= HIGHEST_ROOMY) return roomy;
  }
  if (seats <= MOST_DENSE && hosts.length <= MOST_HOSTS) {
    const dense = planHosts(hosts, width, true);
    if (dense.height <= HIGHEST_DENSE || hosts.length === 1) return dense;
  }
  return planGroups(state, width, opened);
}
