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

const QUANTITIES = ["rss", "gpu_memory", "utilisation"];
const [NO_NUMBERS, NOT_THERE] = [NaN, -1];

/** What was seen at one moment: three numbers for all together, then for each rank. */
class Moment {
  /** @param {number} now_ms @param {number} ranks */
  constructor(now_ms, ranks) {
    this.at_ms = now_ms;
    this.values = new Float64Array(QUANTITIES.length * (ranks + 1)).fill(NOT_THERE);
  }

  /** @param {number} rank @param {Record<string, number> | null} seen null: it has no numbers now */
  put(rank, seen) {
    const at = QUANTITIES.length * (rank + 1);
    for (let i = 0; i < QUANTITIES.length; i++) this.values[at + i] = seen ? seen[QUANTITIES[i]] : NO_NUMBERS;
  }

  /** @param {number} rank @param {string} what */
  get(rank, what) {
    return this.values[QUANTITIES.length * (rank + 1) + QUANTITIES.indexOf(what)] ?? NOT_THERE;
  }
}

/** What is seen of a rank now: of its GPUs, or without any of its process. */
function seenOf(/** @type {Engine} */ engine, /** @type {Host} */ host, gpus) {
  let [used, total, busy, count] = [0, 0, 0, 0];
  for (const index of devicesOf(engine)) {
    const gpu = gpus.get(index);
    if (!gpu) continue;
    used += gpu.memory_used_bytes;
    total += gpu.memory_total_bytes;
    busy += gpu.utilisation_percent;
    count += 1;
  }
  return {
    rss: engine.rss_bytes,
    rss_limit: host.memory_total_bytes,
    gpu_memory: used,
    gpu_limit: total,
    utilisation: count ? busy / count : engine.cpu_percent,
  };
}

/** What is seen of everything now; each rank is put where it belongs. */
function takeAll(/** @type {Moment} */ moment, /** @type {Topology} */ state, limits) {
  const total = { rss: 0, rss_limit: 0, gpu_memory: 0, gpu_limit: 0, utilisation: 0 };
  let count = 0;
  for (const host of state.hosts) {
    const gpus = new Map(host.gpus.map((gpu) => [gpu.index, gpu]));
    for (const gpu of host.gpus) {
      total.gpu_memory += gpu.memory_used_bytes;
      total.gpu_limit += gpu.memory_total_bytes;
    }
    total.rss_limit += host.memory_total_bytes;
    for (const engine of host.engines) {
      const seen = hasNumbers(engine) ? seenOf(engine, host, gpus) : null;
      moment.put(engine.rank, seen);
      if (!seen) continue;
      limits.set(engine.rank, seen);
      total.rss += seen.rss;
      total.utilisation += seen.utilisation;
      count += 1;
    }
  }
  total.utilisation /= Math.max(1, count);
  moment.put(EVERYONE, total);
  limits.set(EVERYONE, total);
}

/** Remember the last two minutes: one sample a second of each rank, and of all together. */
export function createHistory() {
  /** @type {Moment[]} */
  let moments = [];
  /** @type {Map<number, Record<string, number>>} */
  const limits = new Map();
  let takenAt = -Infinity;

  /** Those in which a rank had numbers, back to where it was not there. @param {number} rank */
  function momentsOf(rank) {
    const absent = moments.findLastIndex((moment) => moment.get(rank, "rss") === NOT_THERE);
    return moments.slice(absent + 1).filter((moment) => !Number.isNaN(moment.get(rank, "rss")));
  }
  return {
    /** @param {Topology} state */
    take(state, now_ms = performance.now()) {
      if (now_ms - takenAt < BETWEEN_MS - 50) return;
      takenAt = now_ms;
      const last = state.hosts.reduce((most, host) => host.engines.reduce((n, { rank }) => Math.max(n, rank), most), -1);
      const moment = new Moment(now_ms, last + 1);
      takeAll(moment, state, limits);
      moments = [...moments.slice(1 - SAMPLES), moment];
    },
    /**
     * @param {number | null} rank null: all ranks together
     * @param {"rss" | "gpu_memory" | "utilisation"} what
     * @returns {Samples}
     */
    samples(rank, what) {
      const seen = momentsOf(rank ?? EVERYONE);
      const { rss_limit: rss = 0, gpu_limit: gpu_memory = 0 } = limits.get(rank ?? EVERYONE) ?? {};
      return {
        values: Float64Array.from(seen, (moment) => moment.get(rank ?? EVERYONE, what)),
        span_s: seen.length > 1 ? (seen[seen.length - 1].at_ms - seen[0].at_ms) / 1000 : 0,
        limit: { rss, gpu_memory, utilisation: 100 }[what],
        unit: what === "utilisation" ? "percent" : "bytes",
      };
    },
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
