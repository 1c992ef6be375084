/**
 * The topology view: hosts, ranks, GPUs and links of one cluster, drawn from one `state` value.
 *
 * Three parts, top to bottom: words (what a fact is called), plan (where things stand; pure), and
 * view (nodes that are made once, keyed by rank, and only written where a value changed). The
 * default export is the widget's door; `createView` serves any other page that has a state.
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

// --- words ------------------------------------------------------------------------------------

/** Word and glyph (a path in a 12 × 12 box) of each state, in the order of the summary. */
const RING = "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z";
const STATES = {
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
const FREE = { word: "no rank", glyph: "" };
const LATE_BEAT_S = 3;
const STALE_AFTER_MS = 5000;
const ANSWER_WITHIN_MS = 2000;
const CONFIRM_WITHIN_MS = 3000;
const HINT = "Point at a rank, or walk with the arrow keys, to read everything known about it.";

/** @param {string | undefined} state */
const look = (state) => STATES[state] ?? { word: String(state), glyph: RING };

/** @param {number} s */
function seconds(s) {
  if (s < 0.1) return `${(s * 1000).toFixed(s < 0.01 ? 1 : 0)} ms`;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  return `${(s / 3600).toFixed(1)} h`;
}

/** @param {number} bytes */
function bytes(bytes) {
  if (!bytes) return "–";
  if (bytes < 999.5e6) return `${Math.round(bytes / 1e6)} MB`;
  return `${(bytes / 1e9).toFixed(bytes < 9.95e9 ? 1 : 0)} GB`;
}

/** @param {number} used @param {number} total */
const share = (used, total) => (total > 0 ? Math.min(1, Math.max(0, used / total)) : 0);

/** @param {string} text @param {number} length */
const clip = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** @param {Engine} engine */
const hasNumbers = (engine) => !["lost", "left", "starting"].includes(engine.state);

/** What a rank is doing, in the fifteen characters a cell has room for. @param {Engine} engine */
function doing(engine) {
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
function rankFacts(/** @type {Engine} */ engine, /** @type {Host} */ host) {
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
function gpuFacts(/** @type {Gpu} */ gpu, /** @type {Host} */ host) {
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
const isNvlink = (link) => link.kind.toUpperCase().startsWith("NV");

/** @param {Link} link */
function linkWords(link) {
  if (isNvlink(link)) return link.lanes ? `NVLink ×${link.lanes}` : "NVLink";
  return `PCIe ${link.kind}`;
}

// --- plan -------------------------------------------------------------------------------------

const ROOMY = { width: 100, height: 63, gap: 8, pad: 10, radius: 6, hostGap: 12 };
const DENSE = { width: 24, height: 21, gap: 3, pad: 8, radius: 3, hostGap: 8 };
const HOST_MIN_WIDTH = 223;
const ONE_LINE_HEAD = { height: 29, fits: 330 };
const TWO_LINE_HEAD = { height: 43 };
const BUS_GAP = 26;

/** One seat per rank, then one per GPU that has no rank. @param {Host} host @returns {Seat[]} */
function seatsOf(host) {
  const engines = [...host.engines].sort((a, b) => a.local_rank - b.local_rank);
  const taken = new Set(engines.map((engine) => engine.device));
  const seats = engines.map((engine) => {
    return { key: `rank ${engine.rank}`, rank: engine.rank, device: engine.device, x: 0, y: 0 };
  });
  for (const gpu of host.gpus) {
    if (taken.has(gpu.index)) continue;
    const key = `gpu ${gpu.index} of ${host.name}`;
    seats.push({ key, rank: null, device: gpu.index, x: 0, y: 0 });
  }
  return seats;
}

/** The one link that stands for all when every pair is joined alike. @param {Host} host */
function busOf(host) {
  const ends = new Set(host.links.flatMap((link) => [link.a, link.b]));
  const pairs = new Set(host.links.map(({ a, b }) => `${Math.min(a, b)}-${Math.max(a, b)}`));
  const kinds = new Set(host.links.map((link) => `${link.kind} ${link.lanes}`));
  const isComplete = pairs.size === (ends.size * (ends.size - 1)) / 2;
  return kinds.size === 1 && ends.size > 1 && isComplete ? host.links[0] : null;
}

/** Links that no single bus can stand for, counted by kind. @param {Host} host */
function linkCaption(host) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const link of host.links) counts[linkWords(link)] = (counts[linkWords(link)] ?? 0) + 1;
  const words = Object.entries(counts).map(([kind, n]) => `${kind}: ${n} pair${n > 1 ? "s" : ""}`);
  return words.join(" · ");
}

/** Place the seats of one host, relative to its corner. */
function planHost(/** @type {Host} */ host, /** @type {number} */ columns, dense) {
  const size = dense ? DENSE : ROOMY;
  const seats = seatsOf(host);
  const hasLinks = !dense && host.links.length > 0;
  const bus = hasLinks ? busOf(host) : null;
  columns = Math.max(1, Math.min(columns, seats.length));
  const inner = columns * (size.width + size.gap) - size.gap;
  const width = Math.max(HOST_MIN_WIDTH, 2 * size.pad + inner);
  const hasOneLine = dense || width >= ONE_LINE_HEAD.fits;
  let y = (hasOneLine ? ONE_LINE_HEAD : TWO_LINE_HEAD).height;
  seats.forEach((seat, i) => {
    const row = Math.floor(i / columns);
    if (i && i % columns === 0) {
      const gap = hasLinks && (!bus || row % 2 === 1) ? BUS_GAP : size.gap;
      y += size.height + gap;
    }
    seat.x = size.pad + (i % columns) * (size.width + size.gap);
    seat.y = y;
  });
  const rows = Math.ceil(seats.length / columns);
  const belowLast = hasLinks && (!bus || rows % 2 === 1) ? BUS_GAP - size.pad : 0;
  const caption = hasLinks && !bus ? linkCaption(host) : "";
  const height = y + size.height + belowLast + size.pad + (caption ? 14 : 0);
  return { host, x: 0, y: 0, width, height, columns, seats, bus, caption, hasOneLine };
}

/**
 * Place all hosts in rows that fit the width.
 * @param {Topology} state
 * @param {number} width
 * @returns {{dense: boolean, width: number, height: number, hosts: HostPlan[]}}
 */
function plan(state, width) {
  const seatCount = state.hosts.reduce((n, host) => n + seatsOf(host).length, 0);
  const dense = seatCount > 64;
  const size = dense ? DENSE : ROOMY;
  const most = Math.max(1, ...state.hosts.map((host) => seatsOf(host).length));
  const preferred = dense ? (most > 16 ? 16 : 8) : state.hosts.length > 1 ? 4 : 8;
  const fitting = Math.floor((width - 2 * size.pad + size.gap) / (size.width + size.gap));
  const hosts = state.hosts.map((host) => planHost(host, Math.min(preferred, fitting), dense));
  let [x, y, rowHeight] = [0, 0, 0];
  for (const host of hosts) {
    if (x > 0 && x + host.width > width) {
      [x, y, rowHeight] = [0, y + rowHeight + size.hostGap, 0];
    }
    [host.x, host.y] = [x + 0.5, y + 0.5];
    x += host.width + size.hostGap;
    rowHeight = Math.max(rowHeight, host.height);
  }
  return { dense, width, height: y + rowHeight + 1, hosts };
}

/** What a plan depends on; while it stays the same nothing moves. @param {Topology} state */
function shapeOf(state) {
  const host = (/** @type {Host} */ h) =>
    [
      h.name,
      h.engines.map((engine) => `${engine.rank}@${engine.device}`),
      h.gpus.length,
      h.links.map((link) => `${link.a}${link.kind}${link.lanes}-${link.b}`),
    ].join("|");
  return state.hosts.map(host).join("\n");
}

// --- nodes ------------------------------------------------------------------------------------

/** What was last written to each node, so that an unchanged value costs no DOM call. */
const written = new WeakMap();

/** @param {Element} node @param {string} name @param {string | number} value */
function write(node, name, value) {
  let known = written.get(node);
  if (!known) written.set(node, (known = {}));
  if (known[name] === value) return;
  known[name] = value;
  if (name === "text") node.textContent = String(value);
  else node.setAttribute(name, String(value));
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {Element} [parent] */
function svg(tag, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) node.setAttribute(name, String(attributes[name]));
  parent?.append(node);
  return node;
}

/** @param {string} tag @param {string} className @param {Element} [parent] */
function html(tag, className, parent) {
  const node = document.createElement(tag);
  node.className = className;
  parent?.append(node);
  return node;
}

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
function makeCell(seat, dense) {
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
function updateCell(cell, engine, host, gpu) {
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
function makeHost() {
  const node = svg("g", { class: "jd-host", role: "group" });
  const box = svg("rect", { class: "jd-host-box", rx: 9 }, node);
  const links = svg("g", { class: "jd-links", "aria-hidden": "true" }, node);
  const name = svg("text", { class: "jd-host-name", x: 10, y: 18 }, node);
  const facts = svg("text", { class: "jd-host-facts jd-small" }, node);
  const title = svg("title", {}, node);
  return { node, box, links, name, facts, title };
}

/** @param {ReturnType<typeof makeHost>} frame @param {Host} host @param {HostPlan} place */
function updateHost(frame, host, { width, hasOneLine }) {
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

/** Draw what joins the GPUs of a host: one bus where all pairs are alike, arcs elsewhere. */
function drawLinks(/** @type {Element} */ parent, /** @type {HostPlan} */ place) {
  parent.replaceChildren();
  if (place.bus) drawBus(parent, place, place.bus);
  else if (place.caption) drawArcs(parent, place);
}

/** @param {Element} parent @param {number} x @param {number} y @param {string} words @param {string} kind */
function drawLabel(parent, x, y, words, kind) {
  const width = words.length * 5.5 + 12;
  svg("rect", { class: "jd-link-plate", x: x - width / 2, y: y - 7, width, height: 14 }, parent);
  const label = svg("text", { class: "jd-link-label", "data-kind": kind, x, y: y + 3.5 }, parent);
  label.textContent = words;
}

/** @param {Element} parent @param {HostPlan} place @param {Link} link */
function drawBus(parent, place, link) {
  const kind = isNvlink(link) ? "nvlink" : "pcie";
  const seats = place.seats.filter((seat) => seat.device !== null);
  const line = kind === "nvlink" ? Math.min(4, 1.2 + Math.sqrt(link.lanes) / 2) : 1.2;
  const levels = new Map();
  for (const seat of seats) {
    const row = Math.floor(place.seats.indexOf(seat) / place.columns);
    const isAbove = row % 2 === 0;
    const level = isAbove ? seat.y + ROOMY.height + BUS_GAP / 2 : seat.y - BUS_GAP / 2;
    const x = seat.x + ROOMY.width / 2;
    const d = isAbove ? `M${x},${seat.y + ROOMY.height}V${level}` : `M${x},${seat.y}V${level}`;
    svg("path", { class: "jd-link", "data-kind": kind, d, "stroke-width": line / 1.4 }, parent);
    levels.set(level, [...(levels.get(level) ?? []), x]);
  }
  const top = Math.min(...levels.keys());
  for (const [level, xs] of levels) {
    const from = levels.size > 1 ? 5 : Math.min(...xs);
    const d = `M${from},${level}H${Math.max(...xs)}` + (levels.size > 1 ? `M5,${top}V${level}` : "");
    svg("path", { class: "jd-link", "data-kind": kind, d, style: `stroke-width:${line}` }, parent);
  }
  const xs = levels.get(top);
  const middle = (Math.min(...xs) + Math.max(...xs)) / 2;
  drawLabel(parent, middle, top, `${linkWords(link)} all-to-all`, kind);
}

/** @param {Element} parent @param {HostPlan} place */
function drawArcs(parent, place) {
  const seatOf = new Map(place.seats.map((seat) => [seat.device, seat]).reverse());
  const hasNvlink = place.host.links.some(isNvlink);
  // Beside NVLink the slower paths are only counted in the caption: drawn, they hide the fast ones.
  for (const link of place.host.links.filter((each) => isNvlink(each) || !hasNvlink)) {
    const [a, b] = [seatOf.get(link.a), seatOf.get(link.b)].sort((p, q) => (p?.y ?? 0) - (q?.y ?? 0));
    if (!a || !b) continue;
    // Each end leans towards its peer, so that the arcs of one GPU leave it side by side.
    const lean = Math.sign(b.x - a.x) * 14;
    const [x1, x2] = [a.x + ROOMY.width / 2 + lean, b.x + ROOMY.width / 2 - lean];
    const y1 = a.y + ROOMY.height;
    const y2 = a.y === b.y ? y1 : b.y;
    const bend = a.y === b.y ? Math.min(27, 4 + Math.abs(x2 - x1) / 14) : (y2 - y1) / 2;
    const d = `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 + (a.y === b.y ? bend : -bend)} ${x2},${y2}`;
    const kind = isNvlink(link) ? "nvlink" : "pcie";
    const line = kind === "nvlink" ? Math.min(4, 0.9 + Math.sqrt(link.lanes) / 2) : 1;
    const path = svg("path", { class: "jd-link", "data-kind": kind, d, style: `stroke-width:${line}` }, parent);
    svg("title", {}, path).textContent = `GPU ${link.a} – GPU ${link.b}: ${linkWords(link)}`;
  }
  drawLabel(parent, place.width / 2, place.height - 12, place.caption, hasNvlink ? "nvlink" : "pcie");
}

// --- view -------------------------------------------------------------------------------------

/** The drawing: keyed hosts and seats, and the one that is looked at. */
function createDrawing(/** @type {Element} */ parent, /** @type {(key: string) => void} */ onLook) {
  const canvas = svg("svg", { class: "jd-drawing", role: "listbox", "aria-label": "hosts and ranks" }, parent);
  const frames = new Map();
  const cells = new Map();
  /** @type {ReturnType<typeof plan> | null} */
  let current = null;
  /** @type {string[]} */
  let order = [];
  let drawn = "";

  /** Put nodes in this order without moving those that stand right: a moved node loses its focus. */
  function arrange(container, nodes) {
    nodes.forEach((node, i) => {
      if (container.children[i] !== node) container.insertBefore(node, container.children[i] ?? null);
    });
    while (container.children.length > nodes.length) container.lastElementChild.remove();
  }

  function layout(/** @type {Topology} */ state, /** @type {number} */ width) {
    current = plan(state, width);
    const { dense } = current;
    write(canvas, "width", width);
    write(canvas, "height", current.height);
    const seen = new Set(current.hosts.flatMap((place) => place.seats.map((seat) => seat.key)));
    for (const [key, cell] of cells) if (!seen.has(key) || cell.dense !== dense) cells.delete(key);
    const nodes = current.hosts.map((place, i) => {
      const frame = frames.get(i) ?? makeHost();
      frames.set(i, frame);
      write(frame.node, "transform", `translate(${place.x},${place.y})`);
      write(frame.box, "width", place.width - 1);
      write(frame.box, "height", place.height - 1);
      drawLinks(frame.links, place);
      const members = place.seats.map((seat) => {
        const cell = cells.get(seat.key) ?? makeCell(seat, dense);
        cells.set(seat.key, Object.assign(cell, { seat, x: place.x + seat.x, y: place.y + seat.y }));
        write(cell.node, "transform", `translate(${seat.x},${seat.y})`);
        return cell.node;
      });
      arrange(frame.node, [frame.title, frame.box, frame.links, frame.name, frame.facts, ...members]);
      return frame.node;
    });
    arrange(canvas, nodes);
    order = current.hosts.flatMap((place) => place.seats.map((seat) => seat.key));
    if (!order.some((key) => cells.get(key).node.getAttribute("tabindex") === "0") && order.length) {
      cells.get(order[0]).node.setAttribute("tabindex", "0");
    }
  }

  /** @param {Topology} state @param {number} width */
  function update(state, width) {
    const shape = `${width}\n${shapeOf(state)}`;
    if (shape !== drawn) layout(state, width);
    drawn = shape;
    state.hosts.forEach((host, i) => {
      updateHost(frames.get(i), host, current.hosts[i]);
      const engines = new Map(host.engines.map((engine) => [engine.rank, engine]));
      const gpus = new Map(host.gpus.map((gpu) => [gpu.index, gpu]));
      for (const { key, rank, device } of current.hosts[i].seats) {
        updateCell(cells.get(key), engines.get(rank), host, gpus.get(device));
      }
    });
  }

  /** The seat an arrow key leads to: the next in order sideways, the nearest one up or down. */
  function neighbour(key, arrow) {
    const i = order.indexOf(key);
    const last = order.length - 1;
    const steps = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: last };
    if (arrow in steps) return order[Math.max(0, Math.min(last, steps[arrow]))];
    const here = cells.get(key);
    const sign = arrow === "ArrowDown" ? 1 : -1;
    const distance = (each) => (each.y - here.y) * sign * 1000 + Math.abs(each.x - here.x);
    const ahead = order.map((each) => cells.get(each)).filter((each) => (each.y - here.y) * sign > 1);
    if (!ahead.length) return key;
    return ahead.reduce((best, each) => (distance(each) < distance(best) ? each : best)).seat.key;
  }

  const keyOf = (/** @type {Event} */ event) =>
    /** @type {Element} */ (event.target).closest?.("[data-key]")?.getAttribute("data-key") ?? "";
  let focused = "";
  canvas.addEventListener("pointerover", (event) => onLook(keyOf(event) || focused));
  canvas.addEventListener("pointerleave", () => onLook(focused));
  canvas.addEventListener("focusout", () => onLook((focused = "")));
  canvas.addEventListener("focusin", (event) => {
    focused = keyOf(event);
    for (const key of order) write(cells.get(key).node, "aria-selected", String(key === focused));
    onLook(focused);
  });
  canvas.addEventListener("keydown", (event) => {
    const arrows = ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"];
    const key = keyOf(event);
    if (!key || !arrows.includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    const next = cells.get(neighbour(key, event.key)).node;
    cells.get(key).node.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  return { update };
}

/** The buttons and the honest state of what they asked for. */
function createCommands(buttons, line, /** @type {(message: object) => void} */ send) {
  let asked = { id: "", kind: "" };
  let waiting = 0;
  let armed = 0;

  /** @param {string} words @param {boolean} ok */
  function say(words, ok) {
    line.hidden = false;
    line.textContent = words;
    line.dataset.ok = ok ? "yes" : "no";
  }
  function ask(/** @type {string} */ kind) {
    clearTimeout(waiting);
    asked = { kind, id: `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}` };
    try {
      send(asked);
    } catch (error) {
      say(`${kind}: not sent: ${error}`, false);
      return;
    }
    say(`${kind}: sent…`, true);
    const instead = kind === "stop" ? "use %dist_stop" : "use ■";
    waiting = setTimeout(() => say(`${kind}: no answer after 2 s: ${instead}`, false), ANSWER_WITHIN_MS);
  }
  const interrupt = html("button", "jd-interrupt", buttons);
  interrupt.textContent = "Interrupt";
  interrupt.title = "Interrupt the running cell on all ranks";
  interrupt.onclick = () => ask("interrupt");
  const stop = html("button", "jd-stop", buttons);
  stop.title = "End the cluster and every process of it";
  function disarm() {
    clearTimeout(armed);
    armed = 0;
    stop.textContent = "Stop";
    delete stop.dataset.armed;
  }
  stop.onclick = () => {
    if (armed) {
      disarm();
      ask("stop");
      return;
    }
    stop.textContent = "Really stop?";
    stop.dataset.armed = "";
    armed = setTimeout(disarm, CONFIRM_WITHIN_MS);
  };
  disarm();
  return {
    /** @param {string} state */
    allow(state) {
      interrupt.disabled = state !== "ready";
      stop.disabled = state !== "ready" && state !== "starting";
    },
    /** @param {Reply} reply */
    reply(reply) {
      if (reply?.kind !== "reply" || reply.id !== asked.id) return;
      clearTimeout(waiting);
      say(`${asked.kind}: ${reply.ok ? "delivered" : "not done"}: ${reply.text}`, reply.ok);
    },
    destroy() {
      clearTimeout(waiting);
      clearTimeout(armed);
    },
  };
}

/** How many ranks are in which state, glyph and words, written only when the words change. */
function updateSummary(/** @type {Element} */ node, /** @type {Engine[]} */ engines) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { state } of engines) counts[state] = (counts[state] ?? 0) + 1;
  const names = [...Object.keys(STATES), ...Object.keys(counts).filter((name) => !(name in STATES))];
  const present = names.filter((name) => counts[name]);
  const words = present.map((name) => `${counts[name]} ${look(name).word}`);
  const key = words.join(" · ");
  if (written.get(node) === key) return;
  written.set(node, key);
  node.replaceChildren();
  present.forEach((name, i) => {
    if (i) node.append(" · ");
    const count = html("span", "jd-count", node);
    count.dataset.state = name;
    const icon = svg("svg", { width: 12, height: 12, "aria-hidden": "true" }, count);
    svg("path", { class: "jd-glyph", d: look(name).glyph }, icon);
    count.append(words[i]);
  });
}

/** @param {Element} node @param {Topology} state @param {string} key */
function updateDetail(node, state, key) {
  for (const host of state.hosts) {
    for (const { key: each, rank, device } of key ? seatsOf(host) : []) {
      if (each !== key) continue;
      const engine = host.engines.find((candidate) => candidate.rank === rank);
      const gpu = host.gpus.find((candidate) => candidate.index === device);
      const facts = [...(engine ? rankFacts(engine, host) : []), ...(gpu ? gpuFacts(gpu, host) : [])];
      node.replaceChildren();
      facts.forEach(([words, isImportant], i) => {
        if (i) node.append(" · ");
        if (isImportant) html("b", "", node).textContent = words;
        else node.append(words);
      });
      return;
    }
  }
  node.textContent = HINT;
}

/** The parts of the view that never change. @param {HTMLElement} parent */
function makeFrame(parent) {
  const root = html("section", "jd-topology", parent);
  root.setAttribute("aria-label", "cluster topology");
  const head = html("div", "jd-head", root);
  const parts = {
    root,
    name: html("span", "jd-name", head),
    badge: html("span", "jd-badge", head),
    generation: html("span", "jd-generation", head),
    summary: html("span", "jd-summary", head),
    buttons: html("span", "jd-buttons", head),
    request: html("div", "jd-request", root),
    stale: html("div", "jd-stale", root),
    note: html("div", "jd-note", root),
  };
  parts.summary.setAttribute("aria-live", "polite");
  for (const node of [parts.request, parts.stale]) node.setAttribute("role", "status");
  for (const node of [parts.request, parts.stale, parts.note]) node.hidden = true;
  return parts;
}

/**
 * Draw a topology into `parent` and keep it up to date.
 * @param {HTMLElement} parent
 * @param {(message: object) => void} send carries {kind, id} to whoever can act on it
 */
export function createView(parent, send) {
  const parts = makeFrame(parent);
  const { root } = parts;
  const commands = createCommands(parts.buttons, parts.request, send);
  /** @type {Topology | null} */
  let state = null;
  let looked = "";
  let newsAt = performance.now();
  const drawing = createDrawing(root, (key) => {
    looked = key;
    if (state) updateDetail(detail, state, looked);
  });
  const detail = html("div", "jd-detail", root);
  const width = () => Math.max(260, (root.clientWidth || 900) - 24);

  function watchSilence() {
    const silent = performance.now() - newsAt;
    const isStale = state?.state === "ready" && silent > STALE_AFTER_MS;
    parts.stale.hidden = !isStale;
    root.toggleAttribute("data-stale", isStale);
    if (isStale) {
      write(parts.stale, "text", `no news from the kernel for ${Math.floor(silent / 1000)} s; this is what was last known`);
    }
  }
  /** @param {Topology} next */
  function update(next) {
    if (!next?.hosts) return;
    state = next;
    newsAt = performance.now();
    write(parts.name, "text", next.cluster);
    write(parts.badge, "text", next.state);
    write(parts.generation, "text", next.generation > 0 ? `generation ${next.generation}` : "");
    write(parts.note, "text", next.note);
    parts.note.hidden = !next.note;
    updateSummary(parts.summary, next.hosts.flatMap((host) => host.engines));
    drawing.update(next, width());
    if (looked || !detail.textContent) updateDetail(detail, next, looked);
    commands.allow(next.state);
    root.dataset.clusterState = next.state;
    watchSilence();
    root.dataset.sequence = String(next.sequence);
  }
  const clock = setInterval(watchSilence, 1000);
  const resize = new ResizeObserver(() => state && drawing.update(state, width()));
  resize.observe(root);
  return {
    update,
    reply: commands.reply,
    destroy() {
      clearInterval(clock);
      resize.disconnect();
      commands.destroy();
      root.remove();
    },
  };
}

/** The widget's door. A factory, so that replies reach views which share one model. */
export default () => {
  /** @type {Set<ReturnType<typeof createView>>} */
  const views = new Set();
  return {
    initialize({ model }) {
      model.on("msg:custom", (/** @type {Reply} */ reply) => views.forEach((view) => view.reply(reply)));
    },
    render({ model, el }) {
      const view = createView(el, (message) => model.send(message));
      const refresh = () => view.update(model.get("state"));
      views.add(view);
      model.on("change:state", refresh);
      refresh();
      return () => {
        model.off("change:state", refresh);
        views.delete(view);
        view.destroy();
      };
    },
  };
};
