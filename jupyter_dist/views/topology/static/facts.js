/** All that is known of a rank, a GPU or a host, in words: [words, is important] pairs. */

import { LATE_BEAT_S, OLD_SAMPLE_S, bytes, bytesOf, devicesOf, hasNumbers, look, ranges, seconds, speed } from "./words.js";

/** What nvidia-smi's words for a way between two devices mean. */
const WAYS = {
  PIX: "one PCIe switch",
  PXB: "several PCIe switches",
  PHB: "the CPU's PCIe bridge",
  NODE: "one NUMA node",
  SYS: "the link between CPUs",
};

/** @param {LinkGroup} group */
export const isNvlink = (group) => group.kind.toLowerCase().startsWith("nv");

/** @param {LinkGroup} group */
export function linkWords(group) {
  if (isNvlink(group)) return group.lanes ? `NVLink ×${group.lanes}` : "NVLink";
  return `PCIe ${group.kind}`;
}

/** Groups that are joined alike, with what that means. @param {LinkGroup[]} groups */
export function linkFact(groups) {
  const [first] = groups;
  const way = isNvlink(first) ? (first.is_switched ? "through NVSwitch" : "") : WAYS[first.kind];
  return `${linkWords(first)}${way ? ` (${way})` : ""}: GPUs ${groups.map((group) => ranges(group.gpus)).join("; ")}`;
}

/** @template T @param {T[]} things @param {(thing: T) => string} key @returns {T[][]} */
export function alike(things, key) {
  /** @type {Map<string, T[]>} */
  const found = new Map();
  for (const thing of things) found.set(key(thing), [...(found.get(key(thing)) ?? []), thing]);
  return [...found.values()];
}

/** What is wrong with a GPU or unexpected of it, in words; mostly empty. @param {Gpu} gpu */
export function warningsOf(gpu) {
  const words = [];
  if (gpu.problem) words.push(gpu.problem);
  if (gpu.xid) words.push(`Xid ${gpu.xid} (${seconds(gpu.xid_age_s ?? 0)} ago)`);
  if (gpu.ecc_errors) words.push(`${gpu.ecc_errors} uncorrected ECC error${gpu.ecc_errors > 1 ? "s" : ""}`);
  if (gpu.is_throttled) words.push("slowed down (heat or power)");
  if (gpu.mig) words.push(`MIG ${gpu.mig}`);
  for (const { pid, name, memory_bytes } of gpu.strangers ?? []) {
    const size = memory_bytes ? `, ${bytes(memory_bytes)}` : "";
    words.push(`used by another's ${name || "process"} (pid ${pid}${size})`);
  }
  return words;
}

/** Where a rank is along each of the named axes: see model/hosts/axes.py. @returns {number[]} */
export function coordinatesOf(/** @type {Axes} */ [, sizes, order], /** @type {number} */ rank) {
  let place = order.length ? order.indexOf(rank) : rank;
  const along = sizes.map(() => 0);
  for (let axis = sizes.length - 1; axis >= 0; axis -= 1) {
    along[axis] = place % sizes[axis];
    place = Math.floor(place / sizes[axis]);
  }
  return along;
}

/** The same as `data=2, model=1`, without one of the axes. @param {Axes} axes @param {number[]} along */
export function writeCoordinates([names], along, without = -1) {
  return names.map((name, axis) => `${name}=${along[axis]}`).filter((_, axis) => axis !== without).join(", ");
}

/** Everything known about a rank. */
export function rankFacts(/** @type {Engine} */ engine, /** @type {Host} */ host, axes, isAwaited = false) {
  const at = axes ? writeCoordinates(axes, coordinatesOf(axes, engine.rank)) : "";
  const facts = [[`rank ${engine.rank}`, true], ...(at ? [[at]] : []), [`on ${host.name}`]];
  if (engine.pid) facts.push([`pid ${engine.pid}`]);
  const why = engine.reason ? `: ${engine.reason}` : "";
  facts.push([look(engine.state).word + why, true]);
  if (isAwaited) facts.push(["awaited by other ranks", true]);
  if (engine.cell) facts.push([`running ${engine.cell} for ${seconds(engine.busy_s)}`]);
  if (engine.collective) {
    const { sequence, operation, is_running, site, group } = engine.collective;
    const time = seconds(engine.collective.seconds);
    const span = is_running ? `inside for ${time}` : `took ${time}`;
    const among = group ? ` of group ${group}` : "";
    facts.push([`last collective #${sequence} ${operation}${among}, ${span}${site ? ` at ${site}` : ""}`]);
  }
  if (hasNumbers(engine)) {
    facts.push([`CPU ${Math.round(engine.cpu_percent)} %`], [`memory ${bytes(engine.rss_bytes)}`]);
    if (engine.gpu_memory_bytes) facts.push([`uses ${bytes(engine.gpu_memory_bytes)} of GPU memory`]);
  }
  if (hasNumbers(engine) && engine.pid) {
    facts.push([engine.beat_age_s ? `heartbeat ${seconds(engine.beat_age_s)} ago` : "heartbeat just now", engine.beat_age_s > LATE_BEAT_S]);
  }
  return facts;
}

/** What is known about a GPU. */
export function gpuFacts(/** @type {Gpu} */ gpu, /** @type {Host} */ host) {
  const sharing = host.engines.filter((engine) => devicesOf(engine).includes(gpu.index));
  const facts = [
    [`GPU ${gpu.index}${gpu.name ? ` ${gpu.name}` : ""}`],
    [`utilisation ${Math.round(gpu.utilisation_percent)} %`],
    [`GPU memory ${bytesOf(gpu.memory_used_bytes, gpu.memory_total_bytes)}`],
  ];
  if (gpu.power_w) {
    facts.push([`${Math.round(gpu.power_w)}${gpu.power_limit_w ? ` of ${Math.round(gpu.power_limit_w)}` : ""} W`]);
  }
  if (gpu.temperature_c) facts.push([`${Math.round(gpu.temperature_c)} °C`]);
  if (gpu.pcie_generation) facts.push([`PCIe ${gpu.pcie_generation}.0 ×${gpu.pcie_lanes}`]);
  for (const words of warningsOf(gpu)) facts.push([`⚠ ${words}`, true]);
  if (sharing.length > 1) {
    facts.push([`GPU shared by ranks ${sharing.map((engine) => engine.rank).join(", ")}`, true]);
  }
  if (!sharing.length) facts.unshift([`no rank on ${host.name}'s`, true]);
  return facts;
}

/** The interfaces that are nearest to one of these GPUs. @param {Host} host @param {number[]} devices */
export function nearestNics(host, devices) {
  const near = (host.nics ?? []).filter((nic) => nic.distance && nic.nearest_gpus?.some((gpu) => devices.includes(gpu)));
  return near.map(({ name, rdma, distance }) => {
    return [`near ${name}${rdma ? ` (RDMA ${rdma})` : ""} by ${WAYS[distance] ?? distance}`];
  });
}

/** @param {Nic[]} nics alike but for their names */
function nicsFact(nics) {
  if (nics.length === 1) return nicWords(nics[0]);
  const fast = nics[0].is_up === false ? "down" : speed(nics[0].speed_mbps);
  const names = `${nics[0].name} to ${nics[nics.length - 1].name}`;
  return [`${nics.length} interfaces (${names})`, nics[0].rdma && "RDMA", fast].filter(Boolean).join(", ");
}

/** @param {Nic} nic */
export function nicKind(nic) {
  return `${Boolean(nic.rdma)} ${nic.speed_mbps} ${nic.is_up}`;
}

/** @param {Nic} nic */
export function nicWords(nic) {
  const parts = [nic.name];
  if (nic.rdma) parts.push(`RDMA ${nic.rdma}`);
  parts.push(nic.is_up === false ? "down" : speed(nic.speed_mbps));
  if (nic.numa_node >= 0) parts.push(`NUMA node ${nic.numa_node}`);
  if (nic.nearest_gpus?.length && nic.distance) {
    const several = nic.nearest_gpus.length > 1 ? "s" : "";
    parts.push(`nearest GPU${several} ${ranges(nic.nearest_gpus)} by ${WAYS[nic.distance] ?? nic.distance}`);
  }
  return parts.filter(Boolean).join(", ");
}

/** The numbers of a host, longest first: a head takes the first for which it has room. */
export function hostNumbers(/** @type {Host} */ host) {
  if (host.state !== "up") return [`host ${host.state}`];
  if (!host.memory_total_bytes) return ["no numbers yet"];
  const cpu = `CPU ${Math.round(host.cpu_percent)}%`;
  const cores = host.cpu_count ? ` of ${host.cpu_count} cores` : "";
  const numa = host.numa_nodes > 1 ? ` · ${host.numa_nodes} NUMA nodes` : "";
  const memory = ` · ${bytesOf(host.memory_used_bytes, host.memory_total_bytes)}`;
  const age = host.sampled_s > OLD_SAMPLE_S ? ` · ${seconds(host.sampled_s)} old` : "";
  return [cpu + cores + numa + memory + age, cpu + cores + memory + age, cpu + memory + age, cpu + age];
}

/** What is known about a host and what it connects. @param {Host} host */
export function hostFacts(host) {
  const facts = [[host.name, true], [hostNumbers(host)[0], host.state !== "up"]];
  if (host.address) facts.push([`${host.address}${host.interface ? ` on ${host.interface}` : ""}`]);
  for (const groups of alike(host.links, linkWords)) facts.push([linkFact(groups)]);
  for (const nics of alike(host.nics ?? [], nicKind)) facts.push([nicsFact(nics)]);
  return facts;
}

/** The warnings of all GPUs of a host, in words. @param {Host} host */
export function hostWarnings(host) {
  const found = host.gpus.map((gpu) => [gpu.index, warningsOf(gpu).join(", ")]).filter(([, words]) => words);
  return found.map(([index, words]) => `GPU ${index}: ${words}`).join(" · ");
}

const MOST_TOLD = 3;

/** What is known about a group of hosts, in two lines: the second says what is wrong. @param {Host[]} hosts */
export function groupFacts(hosts) {
  const engines = hosts.flatMap((host) => host.engines.map((engine) => ({ engine, host })));
  const ranks = ranges(engines.map(({ engine }) => engine.rank));
  const span = hosts.length > 1 ? `${hosts[0].name} to ${hosts[hosts.length - 1].name}` : hosts[0].name;
  const wrong = engines.filter(({ engine }) => engine.state === "lost" || engine.state === "hung");
  const told = wrong.slice(0, MOST_TOLD).map(({ engine, host }) => {
    const why = engine.reason ? `: ${engine.reason}` : "";
    return [`rank ${engine.rank} on ${host.name} ${look(engine.state).word}${why}`, true];
  });
  if (wrong.length > MOST_TOLD) told.push([`and ${wrong.length - MOST_TOLD} more`]);
  const warnings = hosts.filter((host) => hostWarnings(host)).map((host) => [`⚠ ${host.name}: ${hostWarnings(host)}`, true]);
  return [[[span, true], [`${hosts.length} hosts`], [`ranks ${ranks}`]], [...told, ...warnings.slice(0, MOST_TOLD)]];
}
