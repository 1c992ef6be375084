/**
 * What facts are called: words, glyphs and numbers, and the shapes of what is drawn.
 *
 * @typedef {{sequence: number, operation: string, seconds: number, is_running: boolean, site: string}} Collective
 * @typedef {{rank: number, local_rank: number, pid: number, state: string, reason: string,
 *   beat_age_s: number, cpu_percent: number, rss_bytes: number, device: number | null,
 *   cell: string, busy_s: number, collective: Collective | null}} Engine
 * @typedef {{index: number, name: string, utilisation_percent: number, memory_used_bytes: number,
 *   memory_total_bytes: number}} Gpu
 * @typedef {{a: number, b: number, kind: string, lanes: number}} Link
 * @typedef {{name: string, state: string, cpu_count: number, cpu_percent: number,
 *   memory_total_bytes: number, memory_used_bytes: number, gpus: Gpu[], links: Link[],
 *   engines: Engine[]}} Host
 * @typedef {{cluster: string, state: string, generation: number, sequence: number, note: string,
 *   hosts: Host[]}} Topology
 * @typedef {{key: string, rank: number | null, device: number | null, x: number, y: number}} Seat
 * @typedef {{host: Host, x: number, y: number, width: number, height: number, columns: number,
 *   seats: Seat[], bus: Link | null, caption: string, hasOneLine: boolean}} HostPlan
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
export const FREE = { word: "no rank", glyph: "" };
export const LATE_BEAT_S = 3;

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

/** @param {number} bytes */
export function bytes(bytes) {
  if (!bytes) return "–";
  if (bytes < 999.5e6) return `${Math.round(bytes / 1e6)} MB`;
  return `${(bytes / 1e9).toFixed(bytes < 9.95e9 ? 1 : 0)} GB`;
}

/** @param {number} used @param {number} total */
export const share = (used, total) => (total > 0 ? Math.min(1, Math.max(0, used / total)) : 0);

/** @param {string} text @param {number} length */
export const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** @param {Engine} engine */
export const hasNumbers = (engine) => !["lost", "left", "starting"].includes(engine.state);

/** What a rank is doing, in the fifteen characters a cell has room for. @param {Engine} engine */
export function doing(engine) {
  const inside = engine.collective?.is_running ? engine.collective : null;
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

/** Everything known about a rank, as [words, is important] pairs. */
export function rankFacts(/** @type {Engine} */ engine, /** @type {Host} */ host) {
  const facts = [[`rank ${engine.rank}`, true], [`on ${host.name}`]];
  if (engine.pid) facts.push([`pid ${engine.pid}`]);
  const why = engine.reason ? `: ${engine.reason}` : "";
  facts.push([look(engine.state).word + why, true]);
  if (engine.cell) facts.push([`running ${engine.cell} for ${seconds(engine.busy_s)}`]);
  if (engine.collective) {
    const { sequence, operation, is_running, site } = engine.collective;
    const time = seconds(engine.collective.seconds);
    const span = is_running ? `inside for ${time}` : `took ${time}`;
    facts.push([`last collective #${sequence} ${operation}, ${span}${site ? ` at ${site}` : ""}`]);
  }
  if (hasNumbers(engine)) {
    facts.push([`CPU ${Math.round(engine.cpu_percent)} %`], [`memory ${bytes(engine.rss_bytes)}`]);
  }
  if (engine.state !== "left" && engine.pid) {
    facts.push([`heartbeat ${seconds(engine.beat_age_s)} ago`]);
  }
  return facts;
}

/** What is known about a GPU, as pairs like those of `rankFacts`. */
export function gpuFacts(/** @type {Gpu} */ gpu, /** @type {Host} */ host) {
  const sharing = host.engines.filter((engine) => engine.device === gpu.index);
  const facts = [
    [`GPU ${gpu.index}${gpu.name ? ` ${gpu.name}` : ""}`],
    [`utilisation ${Math.round(gpu.utilisation_percent)} %`],
    [`GPU memory ${bytes(gpu.memory_used_bytes)} of ${bytes(gpu.memory_total_bytes)}`],
  ];
  if (sharing.length > 1) {
    facts.push([`GPU shared by ranks ${sharing.map((engine) => engine.rank).join(", ")}`]);
  }
  if (!sharing.length) facts.unshift([`no rank on ${host.name}'s`, true]);
  return facts;
}

/** @param {Link} link */
export const isNvlink = (link) => link.kind.toUpperCase().startsWith("NV");

/** @param {Link} link */
export function linkWords(link) {
  if (isNvlink(link)) return link.lanes ? `NVLink ×${link.lanes}` : "NVLink";
  return `PCIe ${link.kind}`;
}
