/** The nodes of hosts and of their seats, and what is written on them. */

import { svg, write } from "./nodes.js";
import { DENSE, ONE_LINE_HEAD, ROOMY } from "./plan.js";
import { FREE, LATE_BEAT_S, bytes, clip, doing, hasNumbers, look, seconds, share } from "./words.js";

/** A labelled bar: `cpu ▬▬▬── 42%`. */
function makeBar(/** @type {Element} */ parent, x, y, width, label) {
  const node = svg("g", { transform: `translate(${x},${y})` }, parent);
  const caption = svg("text", { class: "jd-label jd-small", y: 3.2 }, node);
  caption.textContent = label;
  const inner = width - 24 - 35;
  svg("rect", { class: "jd-track", x: 24, y: -2, width: inner, height: 4, rx: 2 }, node);
  const fill = svg("rect", { class: "jd-fill", x: 24, y: -2, width: 0, height: 4, rx: 2 }, node);
  const value = svg("text", { class: "jd-value jd-small", x: width, y: 3.2 }, node);
  return {
    /** @param {string} name @param {number} part @param {string} words */
    set(name, part, words) {
      write(caption, "text", name);
      write(fill, "width", (inner * part).toFixed(1));
      write(value, "text", words);
    },
  };
}

/** The nodes of one seat. @param {Seat} seat @param {boolean} dense */
export function makeCell(seat, dense) {
  const size = dense ? DENSE : ROOMY;
  const node = svg("g", { class: dense ? "jd-cell jd-dense" : "jd-cell", role: "option", tabindex: -1 });
  node.setAttribute("data-key", seat.key);
  if (seat.rank !== null) node.setAttribute("data-rank", String(seat.rank));
  const { width, height, radius: rx } = size;
  svg("rect", { class: "jd-ring", x: -3, y: -3, width: width + 6, height: height + 6, rx: rx + 2 }, node);
  svg("rect", { class: "jd-box", width, height, rx }, node);
  const glyph = svg("path", { class: "jd-glyph" }, node);
  const number = svg("text", {}, node);
  const cell = { node, seat, dense, glyph, number };
  if (dense) {
    glyph.setAttribute("transform", "translate(8.4,11.6) scale(0.6)");
    for (const [name, value] of [["class", "jd-dense-rank"], ["x", 12], ["y", 9.2]]) {
      number.setAttribute(String(name), String(value));
    }
    return cell;
  }
  glyph.setAttribute("transform", "translate(9,7)");
  for (const [name, value] of [["class", "jd-rank"], ["x", 26], ["y", 18.5]]) {
    number.setAttribute(String(name), String(value));
  }
  return Object.assign(cell, {
    device: svg("text", { class: "jd-value jd-small", x: 83, y: 16.5 }, node),
    beat: svg("circle", { class: "jd-beat", cx: 90, cy: 13.2, r: 2.6 }, node),
    late: svg("text", { class: "jd-late", x: 92, y: 16.5 }, node),
    doing: svg("text", { class: "jd-doing", x: 9, y: 32 }, node),
    upper: makeBar(node, 9, 43, 83, "cpu"),
    lower: makeBar(node, 9, 53.5, 83, "mem"),
  });
}

/** Write what changed of one seat. */
export function updateCell(cell, engine, host, gpu) {
  const state = engine ? engine.state : "free";
  const { word, glyph } = engine ? look(state) : FREE;
  write(cell.node, "data-state", state);
  write(cell.glyph, "d", glyph);
  write(cell.number, "text", engine ? String(engine.rank) : cell.dense ? "–" : `GPU ${gpu?.index}`);
  const what = engine?.cell ? `, ${engine.cell}` : "";
  const who = engine ? `rank ${engine.rank} on ${host.name}` : `GPU ${gpu?.index} of ${host.name}`;
  write(cell.node, "aria-label", `${who}: ${word}${what}${engine?.reason ? `, ${engine.reason}` : ""}`);
  if (cell.dense) return;
  write(cell.doing, "text", engine ? doing(engine) : word);
  if (!engine) write(cell.number, "x", 9);
  const hasBeat = Boolean(engine && hasNumbers(engine) && engine.pid);
  const isLate = hasBeat && engine.beat_age_s > LATE_BEAT_S;
  const fresh = hasBeat ? Math.max(0.2, 1 - engine.beat_age_s / (2 * LATE_BEAT_S)).toFixed(1) : 0;
  write(cell.beat, "opacity", isLate ? 0 : fresh);
  write(cell.late, "text", isLate ? `♥ ${seconds(engine.beat_age_s)}` : "");
  const hasDevice = engine && engine.device !== null && engine.device !== undefined;
  write(cell.device, "text", hasDevice && !isLate ? `GPU ${engine.device}` : "");
  updateBars(cell, engine, host, gpu);
}

/** A seat on a GPU shows the GPU's numbers, another one those of its process. */
function updateBars(cell, engine, host, gpu) {
  if (gpu) {
    const { utilisation_percent: busy, memory_used_bytes: used, memory_total_bytes: total } = gpu;
    cell.upper.set("gpu", share(busy, 100), `${Math.round(busy)}%`);
    cell.lower.set("mem", share(used, total), bytes(used));
  } else if (engine && hasNumbers(engine)) {
    cell.upper.set("cpu", share(engine.cpu_percent, 100), `${Math.round(engine.cpu_percent)}%`);
    cell.lower.set("mem", share(engine.rss_bytes, host.memory_total_bytes), bytes(engine.rss_bytes));
  } else {
    cell.upper.set("cpu", 0, "–");
    cell.lower.set("mem", 0, "–");
  }
}

/** The frame of one host: box, name, and its own numbers. */
export function makeHost() {
  const node = svg("g", { class: "jd-host", role: "group" });
  const box = svg("rect", { class: "jd-host-box", rx: 9 }, node);
  const links = svg("g", { class: "jd-links", "aria-hidden": "true" }, node);
  const name = svg("text", { class: "jd-host-name", x: 10, y: 18 }, node);
  const facts = svg("text", { class: "jd-host-facts jd-small" }, node);
  const title = svg("title", {}, node);
  return { node, box, links, name, facts, title };
}

/** @param {ReturnType<typeof makeHost>} frame @param {Host} host @param {HostPlan} place */
export function updateHost(frame, host, { width, hasOneLine }) {
  write(frame.node, "data-host-state", host.state);
  write(frame.node, "aria-label", `host ${host.name}, ${host.state}`);
  const isKnown = host.state === "up" && host.memory_total_bytes > 0;
  const cores = host.cpu_count && width >= ONE_LINE_HEAD.fits ? ` of ${host.cpu_count} cores` : "";
  const used = bytes(host.memory_used_bytes).replace(/ GB$/, "");
  const memory = `${used} of ${bytes(host.memory_total_bytes)}`;
  const numbers = `CPU ${Math.round(host.cpu_percent)}%${cores} · ${memory}`;
  const facts = isKnown ? numbers : host.state === "up" ? "no numbers yet" : `host ${host.state}`;
  const room = width - 26 - (hasOneLine ? facts.length * 5.7 : 0);
  write(frame.name, "text", clip(host.name, Math.max(6, Math.floor(room / 7.6))));
  write(frame.facts, "text", facts);
  write(frame.facts, "x", hasOneLine ? width - 10 : 10);
  write(frame.facts, "y", hasOneLine ? 18.5 : 33);
  write(frame.facts, "text-anchor", hasOneLine ? "end" : "start");
  write(frame.title, "text", `${host.name}: ${host.state}`);
}
