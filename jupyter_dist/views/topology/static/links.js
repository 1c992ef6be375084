/**
 * Draws what joins GPUs and hosts, and what lights up while ranks are in the same collective.
 *
 * @typedef {{x: number, y: number, words: string, kind: string}} Label
 */

import { isNvlink, linkFact, linkWords } from "./facts.js";
import { svg, write } from "./nodes.js";
import { ROOMY } from "./plan.js";
import { litPath } from "./routes.js";

/** @param {Element} parent @param {number} x @param {number} y @param {string} words @param {string} kind */
function drawLabel(parent, x, y, words, kind) {
  const width = words.length * 5.2 + 8;
  svg("rect", { class: "jd-link-plate", "data-kind": kind, x: x - width / 2, y: y - 6, width, height: 12 }, parent);
  const label = svg("text", { class: "jd-link-label", "data-kind": kind, x, y: y + 3.2 }, parent);
  label.textContent = words;
}

/** @param {LinkGroup} group */
const kindOf = (group) => (isNvlink(group) ? "nvlink" : group.kind.toLowerCase());

/** NVLink is as thick as it has lanes; other ways are thinner the longer they are. */
function thickness(/** @type {LinkGroup} */ group) {
  if (isNvlink(group)) return Math.min(4, 1.2 + Math.sqrt(group.lanes ?? 1) / 2);
  return { PIX: 2, PXB: 1.7, PHB: 1.4, NODE: 1.2 }[group.kind] ?? 1;
}

/** @param {Element} parent @param {Route} route @param {boolean} isOnly */
function drawRoute(parent, route, isOnly) {
  const { group, lines, rail } = route;
  const [kind, width] = [kindOf(group), thickness(group)];
  const node = svg("g", { class: "jd-route", "data-kind": kind }, parent);
  svg("title", {}, node).textContent = linkFact([group]);
  const add = (d, stroke) => svg("path", { class: "jd-link", "data-kind": kind, d, style: `stroke-width:${stroke}` }, node);
  for (const { y, stems } of lines) {
    const xs = stems.map((stem) => stem.x);
    if (rail !== null) xs.push(rail);
    for (const stem of stems) add(`M${stem.x},${stem.from}V${stem.to}`, width / 1.4);
    add(`M${Math.min(...xs)},${y}H${Math.max(...xs)}`, width);
  }
  if (rail !== null) add(`M${rail},${lines[0].y}V${lines[lines.length - 1].y}`, width);
  const first = lines[0].stems.map((stem) => stem.x);
  const toAll = isOnly && route.seats.size > 2 ? " all-to-all" : "";
  const words = isOnly || isNvlink(group) ? linkWords(group) + toAll : group.kind;
  const middle = (Math.min(...first) + Math.max(...first)) / 2;
  const x = first.length > 1 ? middle : (middle + (rail ?? middle)) / 2;
  return { x, y: lines[0].y, words, kind };
}

/** Pairs that no tree can show, each end leaning towards its peer. @param {Element} parent */
function drawArcs(parent, /** @type {HostPlan} */ place) {
  for (const { group, seats } of place.arcs) {
    const [a, b] = [...seats].map((i) => place.seats[i]).sort((p, q) => p.y - q.y || p.x - q.x);
    const lean = Math.sign(b.x - a.x) * 14;
    const [x1, x2] = [a.x + ROOMY.width / 2 + lean, b.x + ROOMY.width / 2 - lean];
    const y1 = a.y + ROOMY.height;
    const y2 = a.y === b.y ? y1 : b.y;
    const bend = a.y === b.y ? Math.min(27, 4 + Math.abs(x2 - x1) / 14) : (y2 - y1) / 2;
    const d = `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 + (a.y === b.y ? bend : -bend)} ${x2},${y2}`;
    const kind = kindOf(group);
    const path = svg("path", { class: "jd-link", "data-kind": kind, d, style: `stroke-width:${thickness(group)}` }, parent);
    svg("title", {}, path).textContent = linkFact([group]);
  }
}

/** Draw what joins the GPUs of a host. @param {HostPlan} place @returns {Label[]} in the host */
export function drawLinks(/** @type {Element} */ parent, place) {
  parent.replaceChildren();
  drawArcs(parent, place);
  return place.routes.map((route) => drawRoute(parent, route, place.routes.length === 1));
}

/** The words on lines, above all that may run through them. */
export function drawLabels(/** @type {Element} */ parent, /** @type {Label[]} */ labels) {
  parent.replaceChildren();
  for (const { x, y, words, kind } of labels) drawLabel(parent, x, y, words, kind);
}

/** The thin line between hosts; its label names interface and speed. @returns {Label[]} */
export function drawNetwork(/** @type {Element} */ parent, /** @type {Network | null} */ network) {
  parent.replaceChildren();
  if (!network) return [];
  for (const { y, from, to, stems } of network.lines) {
    for (const stem of stems) svg("path", { class: "jd-network", d: `M${stem.x},${stem.from}V${y}` }, parent);
    svg("path", { class: "jd-network", d: `M${from},${y}H${to}` }, parent);
  }
  const ys = network.lines.map((line) => line.y);
  if (network.rail !== null) {
    svg("path", { class: "jd-network", d: `M${network.rail},${ys[0]}V${ys[ys.length - 1]}` }, parent);
  }
  return network.words ? [{ x: network.x, y: network.y, words: network.words, kind: "network" }] : [];
}

/** @param {string} d @param {Call | Message} call */
const flow = (d, call, of) => ({ d, of, isHung: call.isHung });

/** Lit parts of the network for ranks on several hosts. @param {Plan} plan @param {HostPlan[]} among */
function litNetwork({ network, hosts }, among) {
  const rows = [...new Set(hosts.map((host) => host.y))];
  const lines = network.lines.map((line, row) => {
    const members = hosts.filter((host) => host.y === rows[row]);
    const stems = line.stems.filter((_, i) => among.includes(members[i]));
    return { ...line, stems };
  });
  const touched = lines.filter((line) => line.stems.length);
  const hasRail = network.rail !== null && touched.length > 1;
  const d = touched.map(({ y, stems }) => {
    const xs = [...stems.map((stem) => stem.x), ...(hasRail ? [network.rail] : [])];
    return stems.map((stem) => `M${stem.x},${stem.from}V${y}`).join("") + `M${Math.min(...xs)},${y}H${Math.max(...xs)}`;
  });
  const ys = touched.map((line) => line.y);
  if (hasRail) d.push(`M${network.rail},${Math.min(...ys)}V${Math.max(...ys)}`);
  return d.join("");
}

/** Where ranks are in the same collective, or send to each other. @param {Plan} plan */
function flowsOf(plan, { calls, messages }) {
  const found = [];
  const hosts = plan.grid ? [plan.grid] : plan.hosts;
  const seats = new Map(hosts.flatMap((host) => host.seats.map((seat) => [seat.rank, { host, seat }])));
  for (const call of calls) {
    if (call.ranks.length < 2) continue;
    const among = hosts.filter((host) => host.seats.some((seat) => call.ranks.includes(seat.rank)));
    for (const host of among) {
      const lit = new Set([...host.seats.keys()].filter((i) => call.ranks.includes(host.seats[i].rank)));
      found.push(...hostFlows(host, lit, call));
    }
    if (among.length > 1 && plan.network) found.push(flow(litNetwork(plan, among), call, call.key));
  }
  for (const message of messages) {
    const [from, to] = [seats.get(message.from), seats.get(message.to)];
    if (from && to) found.push(flow(messagePath(from, to), message, `${message.from} to ${message.to}`));
  }
  return found;
}

/** @param {HostPlan | Grid} host @param {Set<number>} lit */
function hostFlows(host, lit, call) {
  const routes = host.plain ? [host.plain] : host.routes;
  // In a grid, beside the first column that takes part: so calls along columns stay apart.
  if (host.gap) routes[0] = { ...host.plain, rail: Math.min(...[...lit].map((i) => host.seats[i].x)) - host.gap / 2 };
  // The lines of larger groups than needed stay dark.
  const enough = routes.findIndex((route) => [...lit].every((i) => route.seats.has(i)));
  const d = routes.slice(0, enough < 0 ? undefined : enough + 1).map((route) => litPath(route, lit)).join("");
  return d ? [flow(shift(d, host.x, host.y), call, call.key)] : [];
}

/** Move path data of the commands M, V and H. */
function shift(d, x, y) {
  return d.replace(/([MVH])([-\d.]+)(?:,([-\d.]+))?/g, (_, command, a, b) => {
    if (command === "M") return `M${+a + x},${+b + y}`;
    return command === "H" ? `H${+a + x}` : `V${+a + y}`;
  });
}

/** From the sender's lower edge to the receiver's nearer one. */
function messagePath(from, to) {
  const middle = ({ host, seat }) => host.x + seat.x + ROOMY.width / 2;
  const top = ({ host, seat }) => host.y + seat.y;
  const [x1, x2] = [middle(from) + 12, middle(to) - 12];
  const y1 = top(from) + (top(to) < top(from) ? 0 : ROOMY.height);
  const y2 = top(to) + (top(to) > top(from) ? 0 : ROOMY.height);
  const down = y1 === y2 ? Math.min(22, 6 + Math.abs(x2 - x1) / 16) : (y2 - y1) / 2;
  return `M${x1},${y1}C${x1},${y1 + down} ${x2},${y2 + (y1 === y2 ? down : -down)} ${x2},${y2}`;
}

/**
 * Light up the edges of the running collectives; nodes are made again only when these change.
 * @param {Element} parent @param {Plan} plan @param {string} arrow the id of the marker at a message's end
 */
export function drawFlows(parent, plan, calls, arrow) {
  const flows = plan.dense ? [] : flowsOf(plan, calls);
  const key = flows.map(({ d, of, isHung }) => `${of} ${isHung} ${d}`).join("\n");
  if (parent.getAttribute("data-flows") === key) return;
  write(parent, "data-flows", key);
  parent.replaceChildren();
  for (const { d, of, isHung } of flows) {
    const isMessage = of.includes(" to ");
    const path = svg("path", { class: isMessage ? "jd-flow jd-message" : "jd-flow", d, "data-of": of }, parent);
    if (isHung) path.setAttribute("data-hung", "");
    if (isMessage) path.setAttribute("marker-end", `url(#${arrow})`);
  }
}
