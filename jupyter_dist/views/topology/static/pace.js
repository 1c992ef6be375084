/** How often a large cluster is drawn: what a page can bear, the newest picture winning. */

import { MOST_DENSE, MOST_ROOMY } from "./levels.js";

// 512 ranks drawn at 4 Hz would take more than a quarter of a core.
const REST_MS = 500;

/** @param {Topology} topology */
const ranksOf = ({ hosts }) => hosts.reduce((count, host) => count + host.engines.length, 0);

/**
 * Draw at once what is small or has another number of ranks, and the rest after a pause. What is
 * very large is never drawn in the task that took it in: each of them is short enough.
 * @param {(topology: Topology) => void} draw
 */
export function createPace(draw) {
  /** @type {Topology | null} */
  let waiting = null;
  let ranks = 0;
  let drawnAt = -Infinity;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  /** @param {Topology} topology */
  function drawNow(topology) {
    clearTimeout(timer);
    waiting = null;
    ranks = ranksOf(topology);
    drawnAt = performance.now();
    draw(topology);
  }
  return {
    /** @param {Topology} topology */
    take(topology) {
      const count = ranksOf(topology);
      const rest = drawnAt + REST_MS - performance.now();
      const isDue = count <= MOST_ROOMY || count !== ranks || rest <= 0;
      if (isDue && count <= MOST_DENSE) {
        drawNow(topology);
      } else {
        if (!waiting) timer = setTimeout(() => waiting && drawNow(waiting), isDue ? 0 : rest);
        waiting = topology;
      }
    },
    destroy: () => clearTimeout(timer),
  };
}
