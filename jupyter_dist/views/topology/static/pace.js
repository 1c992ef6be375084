/** How often a large cluster is drawn: what a page can bear, the newest picture winning. */

import { MOST_ROOMY } from "./plan.js";

// 512 ranks drawn at 4 Hz would take more than a quarter of a core.
const REST_MS = 500;

/** @param {Topology} topology */
const ranksOf = ({ hosts }) => hosts.reduce((count, host) => count + host.engines.length, 0);

/**
 * Draw at once what is small or has another number of ranks, and the rest after a pause.
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
      const rest = drawnAt + REST_MS - performance.now();
      if (ranksOf(topology) <= MOST_ROOMY || ranksOf(topology) !== ranks || rest <= 0) {
        drawNow(topology);
      } else {
        if (!waiting) timer = setTimeout(() => waiting && drawNow(waiting), rest);
        waiting = topology;
      }
    },
    destroy: () => clearTimeout(timer),
  };
}
