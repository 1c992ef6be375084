/**
 * What is said: words and glyphs of states, numbers with their units, and the shapes of what is drawn.
 *
 * @typedef {{sequence: number, operation: string, seconds: number, is_running: boolean, site: string,
 *   group: string, root: number, is_earlier: boolean}} Collective
 * @typedef {{rank: number, local_rank: number, pid: number, state: string, reason: string,
 *   beat_age_s: number, cpu_percent: number, rss_bytes: number, gpu_memory_bytes?: number, device: number | null,
 *   devices: number[], cell: string, busy_s: number, collective: Collective | null}} Engine
 * @typedef {{pid: number, name: string, memory_bytes: number}} Stranger
 * @typedef {{index: number, name: string, utilisation_percent: number, memory_used_bytes: number,
 *   memory_total_bytes: number, power_w: number, power_limit_w: number, temperature_c: number,
 *   ecc_errors: number, xid: number, xid_age_s: number, pcie_generation: number, pcie_lanes: number,
 *   mig: string, is_throttled: boolean, strangers: Stranger[], problem: string}} Gpu
 * @typedef {{kind: string, gpus: number[], lanes?: number, is_switched?: boolean}} LinkGroup
 * @typedef {{name: string, speed_mbps: number, rdma: string, is_up: boolean, numa_node: number,
 *   nearest_gpus: number[], distance: string}} Nic
 * @typedef {{name: string, state: string, interface: string, interface_mbps: number, address: string,
 *   cpu_count: number, cpu_percent: number, memory_total_bytes: number, memory_used_bytes: number,
 *   numa_nodes: number, sampled_s: number, gpus: Gpu[], links: LinkGroup[], nics: Nic[],
 *   engines: Engine[]}} Host
 * @typedef {{cluster: string, state: string, generation: number, sequence: number, note: string,
 *   hosts: Host[], axes?: Axes}} Topology
 * @typedef {[names: string[], sizes: number[], order: number[], version: number]} Axes no names: none are named
 * @typedef {{kind: string, id: string, ok: boolean, text: string}} Reply
 */

const RING = "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z";

/** Word and glyph (a path in a 12 × 12 box) of each state, in the order of the summary. */
export const STATES = {
  starting: { word: "starting", glyph: RING },
  idle: { word: "idle", glyph: RING },
  busy: { word: "busy", glyph: "M2.8 1.4L10.6 6L2.8 10.6z" },
  collective: {
    word: "in collective",
    glyph: "M1.2 3.5H10.6M8.3 1.2L10.6 3.5L8.3 5.8M10.8 8.5H1.4M3.7 6.2L1.4 8.5L3.7 10.8",
  },
  hung: {
    word: "hung?",
    glyph:
      "M2.4 1.2H9.6M2.4 10.8H9.6M3.4 1.2C3.4 4.4 6 4.4 6 6C6 7.6 3.4 7.6 3.4 10.8" +
      "M8.6 1.2C8.6 4.4 6 4.4 6 6C6 7.6 8.6 7.6 8.6 10.8",
  },
  lost: { word: "lost", glyph: "M2.2 2.2L9.8 9.8M9.8 2.2L2.2 9.8" },
  left: { word: "left", glyph: "M6 4.4a1.6 1.6 0 1 0 0 3.2a1.6 1.6 0 1 0 0-3.2z" },
};
/** Ranks enter and leave collectives many times a second: that is one thing to be told of. */
export const SAID_AS = { busy: "working", collective: "working" };
export const FREE = { word: "no rank", glyph: "" };

/** Paths of the marks beside states: a warning (13 × 12), a GPU that is shared, and RDMA (8 × 8). */
export const MARKS = {
  plate: "M6.5 0.8L12.4 11.4H0.6Z",
  warning: "M6.5 4.4V7.7M6.5 9.6V9.7",
  shared: "M0.8 0.8H5.2V5.2H0.8ZM2.8 5.2V7.2H7.2V2.8H5.2",
  rdma: "M4 0.6L7.4 4L4 7.4L0.6 4Z",
};
export const LATE_BEAT_S = 3;
export const OLD_SAMPLE_S = 3;

/** @param {string | undefined} state */
export const look = (state) => STATES[state] ?? { word: String(state), glyph: RING };

/** @param {number} s */
export function seconds(s) {
  if (s < 0.1) return `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return `${(s / 3600).toFixed(1)} h`;
}

/** @param {number} count */
export function bytes(count) {
  if (!count) return "–";
  if (count < 1023.5 * 2 ** 20) return `${Math.round(count / 2 ** 20)} MiB`;
  return `${(count / 2 ** 30).toFixed(count < 9.95 * 2 ** 30 ? 1 : 0)} GiB`;
}

/** `38 of 131 GiB`: the unit once where both have it. @param {number} used @param {number} total */
export function bytesOf(used, total, between = " of ") {
  const [part, whole] = [bytes(used), bytes(total)];
  return `${part.slice(-3) === whole.slice(-3) ? part.slice(0, -4) : part}${between}${whole}`;
}

/** @param {number} mbps */
export function speed(mbps) {
  if (!mbps) return "";
  return mbps < 1000 ? `${mbps} Mb/s` : `${+(mbps / 1000).toFixed(1)} Gb/s`;
}

/** `0-3, 7`. @param {Iterable<number>} numbers */
export function ranges(numbers) {
  /** @type {number[][]} */
  const spans = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const last = spans.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else spans.push([number, number]);
  }
  return spans.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(", ");
}

/** @param {number} used @param {number} total */
export const share = (used, total) => (total > 0 ? Math.min(1, Math.max(0, used / total)) : 0);

/** @param {string} text @param {number} length */
export const clip = (text, length) => (text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text);

/** What stays the same while time passes. @param {string} text */
export const withoutTimes = (text) => text.replace(/( for)? \d+(\.\d+)? (s|min|h)\b/g, "");

/** @param {Engine} engine */
export const hasNumbers = (engine) => !["lost", "left", "starting"].includes(engine.state);

/** NVML's numbers of the GPUs that a rank has. @param {Engine} engine */
export function devicesOf(engine) {
  if (engine.devices?.length) return engine.devices;
  return engine.device === null || engine.device === undefined ? [] : [engine.device];
}

/** What a rank is doing, in the sixteen characters a seat has room for. @param {Engine} engine */
export function doing(engine, isAwaited = false) {
  const inside = engine.collective?.is_running ? engine.collective : null;
  if (isAwaited) {
    const words = `awaited · ${engine.cell ? seconds(engine.busy_s) : look(engine.state).word}`;
    return words.length > 14 ? "awaited" : words;
  }
  if (engine.state === "hung") return `hung? ${seconds(inside ? inside.seconds : engine.busy_s)}`;
  if (engine.state === "collective" && inside) {
    const number = ` #${inside.sequence}`;
    return clip(inside.operation, 16 - number.length) + number;
  }
  if (engine.state === "busy" && engine.cell) {
    return clip(`${engine.cell} · ${seconds(engine.busy_s)}`, 16);
  }
  return look(engine.state).word;
}
