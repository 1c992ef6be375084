/** What the view has seen of each rank in the last two minutes, and small curves of it. */

import { html, svg, write } from "./nodes.js";
import { bytes, devicesOf, hasNumbers, seconds, share } from "./words.js";

const SAMPLES = 120;
const BETWEEN_MS = 1000;
const EVERYONE = -1;
const CURVE = { width: 220, height: 36 };

/**
 * @typedef {{values: Float64Array, span_s: number, limit: number, unit: "bytes" | "percent"}} Samples
 *   oldest first; `limit` 0: none is known
 */

/** The last values of one rank (or of all), in rings of the same length. */
class Rings {
  constructor() {
    this.count = 0;
    this.times = new Float64Array(SAMPLES);
    this.rss = new Float64Array(SAMPLES);
    this.gpu_memory = new Float64Array(SAMPLES);
    this.utilisation = new Float64Array(SAMPLES);
    this.limits = { rss: 0, gpu_memory: 0, utilisation: 100 };
  }

  put(now_ms, seen) {
    const at = this.count++ % SAMPLES;
    this.times[at] = now_ms;
    for (const what of ["rss", "gpu_memory", "utilisation"]) this[what][at] = seen[what];
    Object.assign(this.limits, { rss: seen.rss_limit, gpu_memory: seen.gpu_limit });
  }

  /** @param {"rss" | "gpu_memory" | "utilisation"} what @returns {Samples} */
  samples(what) {
    const kept = Math.min(this.count, SAMPLES);
    const order = Array.from({ length: kept }, (_, i) => (this.count - kept + i) % SAMPLES);
    const values = Float64Array.from(order, (at) => this[what][at]);
    const span_s = kept > 1 ? (this.times[order[kept - 1]] - this.times[order[0]]) / 1000 : 0;
    return { values, span_s, limit: this.limits[what], unit: what === "utilisation" ? "percent" : "bytes" };
  }
}

/** What is seen of a rank now: of its GPUs, or without any of its process. */
function seenOf(/** @type {Engine} */ engine, /** @type {Host} */ host, gpus) {
  const mine = devicesOf(engine).map((index) => gpus.get(index)).filter(Boolean);
  const sum = (name) => mine.reduce((total, gpu) => total + gpu[name], 0);
  return {
    rss: engine.rss_bytes,
    rss_limit: host.memory_total_bytes,
    gpu_memory: sum("memory_used_bytes"),
    gpu_limit: sum("memory_total_bytes"),
    utilisation: mine.length ? sum("utilisation_percent") / mine.length : engine.cpu_percent,
  };
}

/** Remember the last two minutes: one sample a second of each rank, and of all together. */
export function createHistory() {
  /** @type {Map<number, Rings>} */
  const rings = new Map();
  let takenAt = -Infinity;
  const ringsOf = (rank) => {
    if (!rings.has(rank)) rings.set(rank, new Rings());
    return rings.get(rank);
  };
  return {
    /** @param {Topology} state */
    take(state, now_ms = performance.now()) {
      if (now_ms - takenAt < BETWEEN_MS - 50) return;
      takenAt = now_ms;
      const total = { rss: 0, rss_limit: 0, gpu_memory: 0, gpu_limit: 0, utilisation: 0 };
      let count = 0;
      const present = new Set([EVERYONE]);
      for (const host of state.hosts) {
        const gpus = new Map(host.gpus.map((gpu) => [gpu.index, gpu]));
        for (const gpu of host.gpus) {
          total.gpu_memory += gpu.memory_used_bytes;
          total.gpu_limit += gpu.memory_total_bytes;
        }
        total.rss_limit += host.memory_total_bytes;
        for (const engine of host.engines) {
          present.add(engine.rank);
          if (!hasNumbers(engine)) continue;
          const seen = seenOf(engine, host, gpus);
          ringsOf(engine.rank).put(now_ms, seen);
          total.rss += seen.rss;
          total.utilisation += seen.utilisation;
          count += 1;
        }
      }
      total.utilisation /= Math.max(1, count);
      ringsOf(EVERYONE).put(now_ms, total);
      for (const rank of rings.keys()) if (!present.has(rank)) rings.delete(rank);
    },
    /**
     * @param {number | null} rank null: all ranks together
     * @param {"rss" | "gpu_memory" | "utilisation"} what
     */
    samples: (rank, what) => (rings.get(rank ?? EVERYONE) ?? new Rings()).samples(what),
  };
}

/** @param {number} value @param {Samples["unit"]} unit */
const told = (value, unit) => (unit === "percent" ? `${Math.round(value)} %` : bytes(value));

/** What a curve shows, in words. @param {Samples} samples */
function curveWords({ values, span_s, unit }) {
  if (!values.length) return "nothing seen yet";
  const [least, most] = [Math.min(...values), Math.max(...values)].map((value) => told(value, unit));
  const now = `${told(values[values.length - 1], unit)} now`;
  if (values.length < 2) return now;
  return `${now}, ${least === most ? "steady" : `${least} to ${most}`} in the last ${seconds(span_s)}`;
}

/** Points of the line: the newest at the right edge, whatever time there is. */
function pointsOf(/** @type {Samples} */ { values, limit }) {
  const top = Math.max(limit, ...values) || 1;
  const step = CURVE.width / (SAMPLES - 1);
  const from = CURVE.width - (values.length - 1) * step;
  const y = (value) => CURVE.height - 1 - share(value, top) * (CURVE.height - 2);
  return Array.from(values, (value, i) => `${(from + i * step).toFixed(1)},${y(value).toFixed(1)}`);
}

/**
 * Draw samples as a small curve whose caption says the same in words.
 * @param {Element} parent
 * @param {Samples} samples
 * @param {string} label as `memory`
 */
export function curve(parent, samples, label) {
  const node = html("figure", "jd-curve", parent);
  const { width, height } = CURVE;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", preserveAspectRatio: "none" }, node);
  const area = svg("path", { class: "jd-curve-area" }, picture);
  const line = svg("path", { class: "jd-curve-line" }, picture);
  const caption = html("figcaption", "", node);
  const set = (/** @type {Samples} */ next) => {
    const points = pointsOf(next);
    write(line, "d", points.length > 1 ? `M${points.join("L")}` : "");
    const from = points[0]?.split(",")[0];
    write(area, "d", points.length > 1 ? `M${from},${height}L${points.join("L")}V${height}Z` : "");
    write(caption, "text", `${label}: ${curveWords(next)}`);
  };
  set(samples);
  return { node, set };
}
