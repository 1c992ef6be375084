/** The drawing: keyed hosts and seats that stay in place, and the keys that walk over them. */

import { callsOf } from "./calls.js";
import { createFilter } from "./filter.js";
import { layHost, makeHost, updateHost } from "./hosts.js";
import { drawFlows, drawLabels, drawLinks, drawNetwork } from "./links.js";
import { ownId, svg, write } from "./nodes.js";
import { MOST_ROOMY, plan, scaleFor, seatsOf, shapeOf } from "./plan.js";
import { addRing, makeCell, updateCell } from "./seats.js";

const ARROWS = ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"];

/** Put nodes in this order without moving those that stand right: a moved node loses its focus. */
function arrange(container, nodes) {
  nodes.forEach((node, i) => {
    if (container.children[i] !== node) container.insertBefore(node, container.children[i] ?? null);
  });
  while (container.children.length > nodes.length) container.lastElementChild.remove();
}

/** The nodes of a drawing, made once for what stays. @param {Element} parent */
function createCanvas(parent) {
  const canvas = svg("svg", { class: "jd-drawing", role: "listbox", "aria-label": "hosts and ranks" }, parent);
  const network = svg("g", { class: "jd-networks", "aria-hidden": "true" });
  const flows = svg("g", { class: "jd-flows", "aria-hidden": "true" });
  const defs = svg("defs", {});
  const size = { viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 9, markerHeight: 9 };
  // Its own: in a view that is hidden it is drawn for nobody.
  const arrow = ownId("arrow");
  const marker = svg("marker", { id: arrow, ...size, orient: "auto", markerUnits: "userSpaceOnUse" }, defs);
  svg("path", { class: "jd-arrow", d: "M0.5 0.5L7.5 4L0.5 7.5Z" }, marker);
  const labels = svg("g", { class: "jd-labels", "aria-hidden": "true" });
  return { canvas, network, flows, labels, defs, arrow };
}

/** The seat an arrow key leads to: the next in order sideways, the nearest one up or down. */
function neighbour(order, cells, key, arrow) {
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

/** Hear pointer, focus and keys. */
function listen(canvas, { seats, onLook, onOpen }) {
  const keyOf = (/** @type {Event} */ event) =>
    /** @type {Element} */ (event.target).closest?.("[data-key]")?.getAttribute("data-key") ?? "";
  const open = (/** @type {Event} */ event) => {
    const rank = /** @type {Element} */ (event.target).closest?.("[data-rank]")?.getAttribute("data-rank");
    if (rank) onOpen(Number(rank));
  };
  let focused = "";
  canvas.addEventListener("pointerover", (event) => onLook(keyOf(event) || focused));
  canvas.addEventListener("pointerleave", () => onLook(focused));
  canvas.addEventListener("focusout", () => onLook((focused = "")));
  canvas.addEventListener("click", open);
  canvas.addEventListener("focusin", (event) => {
    focused = keyOf(event);
    seats.select(focused);
    onLook(focused);
  });
  canvas.addEventListener("keydown", (event) => {
    const key = keyOf(event);
    const isOpening = event.key === "Enter" || event.key === " ";
    if (!key || !(isOpening || ARROWS.includes(event.key))) return;
    event.preventDefault();
    event.stopPropagation();
    if (isOpening) open(event);
    else seats.walk(key, event.key);
  });
}

/**
 * The drawing: keyed hosts and seats, and the one that is looked at.
 * @param {Element} parent
 * @param {(key: string) => void} onLook names the seat or host that is pointed at or focused, or ""
 * @param {(rank: number) => void} onOpen
 */
export function createDrawing(parent, onLook, onOpen = () => {}) {
  /** @type {[Topology, number] | null} */
  let latest = null;
  const filter = createFilter(parent, () => latest && update(...latest));
  const { canvas, network, flows, labels, defs, arrow } = createCanvas(parent);
  const frames = new Map();
  const cells = new Map();
  /** @type {Plan} */
  let current;
  /** @type {string[]} */
  let order = [];
  let drawn = "";
  const seats = {
    select(key) {
      for (const each of order) write(cells.get(each).node, "aria-selected", String(each === key));
      if (!cells.has(key)) return;
      addRing(cells.get(key));
      for (const each of order) write(cells.get(each).node, "tabindex", each === key ? 0 : -1);
    },
    walk: (key, arrow) => cells.get(neighbour(order, cells, key, arrow)).node.focus(),
  };
  listen(canvas, { seats, onLook, onOpen });

  /** The nodes of one host in their place. @param {HostPlan} place @param {Label[]} words to add to */
  function layOne(place, words) {
    const frame = frames.get(place.host.name) ?? makeHost();
    frames.set(place.host.name, frame);
    layHost(frame, place);
    const own = drawLinks(frame.links, place);
    words.push(...own.map((label) => ({ ...label, x: place.x + label.x, y: place.y + label.y })));
    const members = place.seats.map((seat) => {
      const made = cells.get(seat.key) ?? makeCell(seat, current.dense);
      cells.set(seat.key, Object.assign(made, { seat, x: place.x + seat.x, y: place.y + seat.y }));
      write(made.node, "transform", `translate(${seat.x},${seat.y})`);
      return made.node;
    });
    const { box, links, head, foot } = frame;
    arrange(frame.node, [box, links, head, ...members, foot]);
    return frame.node;
  }

  function layout(/** @type {Topology} */ state, /** @type {number} */ width) {
    const scale = scaleFor(width);
    current = plan(state, width / scale);
    const height = Math.ceil(current.height);
    write(canvas, "width", width);
    write(canvas, "height", Math.ceil(height * scale));
    write(canvas, "viewBox", `0 0 ${width / scale} ${height}`);
    const places = current.hosts.flatMap((place) => place.seats);
    const wanted = new Map(places.map((seat) => [seat.key, `${seat.devices} ${seat.isShared}`]));
    for (const [key, { seat, dense }] of cells) {
      // A seat that got other GPUs is made again: it has a column for each.
      if (dense !== current.dense || wanted.get(key) !== `${seat.devices} ${seat.isShared}`) cells.delete(key);
    }
    const names = new Set(current.hosts.map((place) => place.host.name));
    for (const name of frames.keys()) if (!names.has(name)) frames.delete(name);
    const words = drawNetwork(network, current.network);
    const hosts = current.hosts.map((place) => layOne(place, words));
    drawLabels(labels, words);
    arrange(canvas, [defs, network, ...hosts, flows, labels]);
    order = places.map((seat) => seat.key);
    // A list box without anything to choose is none.
    write(canvas, "role", order.length ? "listbox" : "img");
    const isReachable = order.some((key) => cells.get(key).node.getAttribute("tabindex") === "0");
    if (!isReachable && order.length) write(cells.get(order[0]).node, "tabindex", 0);
  }

  /** @param {Topology} whole @param {number} width */
  function update(whole, width) {
    latest = [whole, width];
    const count = whole.hosts.reduce((sum, host) => sum + seatsOf(host).length, 0);
    const state = filter.apply(whole, count > MOST_ROOMY);
    const shape = `${width}\n${shapeOf(state)}`;
    if (shape !== drawn) layout(state, width);
    drawn = shape;
    const calls = callsOf(whole);
    state.hosts.forEach((host, i) => {
      updateHost(frames.get(host.name), host, current.hosts[i]);
      const engines = new Map(host.engines.map((engine) => [engine.rank, engine]));
      const gpus = new Map(host.gpus.map((gpu) => [gpu.index, gpu]));
      for (const { key, rank } of current.hosts[i].seats) {
        updateCell(cells.get(key), engines.get(rank), host, gpus, calls.awaited.has(rank));
      }
    });
    drawFlows(flows, current, calls, arrow);
  }
  return {
    update,
    /** Put the focus on the seat of a rank, if it is there. @param {number} rank */
    focus: (rank) => cells.get(`rank ${rank}`)?.node.focus(),
  };
}
