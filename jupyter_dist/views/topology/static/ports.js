/**
 * The network: ports at the lower edge of a host, and the line that joins the hosts. Pure.
 *
 * @typedef {{lines: {y: number, from: number, to: number, stems: {x: number, from: number}[]}[],
 *   rail: number | null, words: string, x: number, y: number}} Network
 */

import { alike, nicKind, nicWords } from "./facts.js";
import { speed } from "./words.js";

export const PORT = { height: 14, gap: 5, pad: 10 };
const PORT_LETTER = 5;
const DROP = 19;

/** @param {string} words @param {boolean} isRdma */
const portWidth = (words, isRdma) => words.length * PORT_LETTER + 12 + (isRdma ? 10 : 0);

/** @param {Nic[]} nics alike ones */
function portOf(nics, data) {
  const [first] = nics;
  const isRdma = Boolean(first.rdma);
  const isUp = first.is_up !== false;
  const fast = isUp ? speed(first.speed_mbps).replace(" Gb/s", "G").replace(" Mb/s", "M") : "down";
  const name = nics.length > 1 ? `${nics.length} ×` : isRdma && first.name === first.rdma ? first.rdma : first.name;
  const words = `${name}${fast ? ` ${fast}` : ""}`;
  const isData = nics.some((nic) => nic.name === data);
  return { words, isRdma, isUp, isData, title: nics.map(nicWords).join("\n"), x: 0, width: portWidth(words, isRdma) };
}

/** Each interface as a port of its own; where they do not fit, alike ones as one. */
export function portsOf(/** @type {Host} */ host, /** @type {number} */ width) {
  const known = [...(host.nics ?? [])];
  if (host.interface && !known.some((nic) => nic.name === host.interface)) {
    const unknown = { rdma: "", is_up: true, numa_node: -1, nearest_gpus: [], distance: "" };
    known.unshift({ name: host.interface, speed_mbps: host.interface_mbps, ...unknown });
  }
  const place = (groups) => {
    let x = PORT.pad;
    const ports = groups.map((nics) => {
      const port = portOf(nics, host.interface);
      port.x = x;
      x += port.width + PORT.gap;
      return port;
    });
    return x - PORT.gap + PORT.pad <= width ? ports : null;
  };
  const grouped = alike(known, (nic) => (nic.name === host.interface ? nic.name : nicKind(nic)));
  while (grouped.length > 1 && !place(grouped)) grouped.pop();
  return place(known.map((nic) => [nic])) ?? place(grouped) ?? [];
}

/** @param {Host[]} hosts */
function networkWords(hosts) {
  const up = hosts.filter((host) => host.address || host.interface);
  if (!up.length) return "";
  const names = [...new Set(up.map((host) => host.interface || "loopback"))];
  const speeds = [...new Set(up.map((host) => host.interface_mbps).filter(Boolean))].sort((a, b) => a - b);
  const fast = speeds.length > 1 ? `${speed(speeds[0])} to ${speed(speeds[speeds.length - 1])}` : speed(speeds[0] ?? 0);
  return `${names.length > 3 ? `${names.length} interfaces` : names.join(", ")}${fast ? ` · ${fast}` : ""}`;
}

/** The line below each row of hosts, and where several rows meet. @param {HostPlan[][]} rows */
export function networkOf(rows) {
  const lines = rows.map((row) => {
    const stems = row.map((host) => {
      const port = host.ports.find((each) => each.isData);
      const x = host.x + (port ? port.x + port.width / 2 : 24);
      return { x, from: host.y + host.height - 1 + (port ? PORT.height / 2 : 0) };
    });
    const y = row[0].y + row[0].height + DROP;
    return { y, from: stems[0].x, to: stems[stems.length - 1].x, stems };
  });
  const rail = lines.length > 1 ? 3.5 : null;
  if (rail !== null) for (const line of lines) line.from = rail;
  const words = networkWords(rows.flat().map((place) => place.host));
  const [first, second] = lines[0].stems;
  // Between the first two hosts; below a single one the line goes on to the words.
  const half = words.length * 2.6 + 12;
  if (!second) lines[0].to = first.x + half;
  const x = second ? (first.x + second.x) / 2 : first.x + half;
  return { lines, rail, words, x, y: lines[0].y };
}
