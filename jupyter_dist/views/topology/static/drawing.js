/** The drawing: keyed hosts, seats and groups that stay in place. */

import { createArrangement } from "./arrangement.js";
import { callsOf } from "./calls.js";
import { createFilter } from "./filter.js";
import { drawFrames } from "./frames.js";
import { tileAt } from "./groups.js";
import { layHost, makeHost, updateHost } from "./hosts.js";
import { listen, neighbour } from "./keys.js";
import { MOST_DENSE, countSeats, plan } from "./levels.js";
import { drawFlows, drawLabels, drawLinks, drawNetwork } from "./links.js";
import { html, ownId, svg, write } from "./nodes.js";
import { scaleFor, shapeOf } from "./plan.js";
import { addRing, makeCell, updateCell } from "./seats.js";
import { layGroup, makeGroup, updateGroup } from "./tiles.js";

/** Put nodes in this order without moving those that stand right: a moved node loses its focus. */
function arrange(container, nodes) {
  nodes.forEach((node, i) => {
    if (container.children[i] !== node) container.insertBefore(node, container.children[i] ?? null);
  });
  while (container.children.length > nodes.length) container.lastElementChild.remove();
}

/** All seats of a picture. @param {Plan} plan */
const seatsIn = ({ grid, hosts }) => grid?.seats ?? hosts.flatMap((place) => place.seats);

/** What seats of a host are updated from. @param {Host} host */
const byNumber = (host) => ({
  host,
  engines: new Map(host.engines.map((engine) => [engine.rank, engine])),
  gpus: new Map(host.gpus.map((gpu) => [gpu.index, gpu])),
});

/** The nodes of a drawing, made once for what stays. @param {Element} parent */
function createCanvas(parent) {
  // Chromium stops at drawings that hear of the focus, when Tab is pressed; its seats are where to stop.
  const canvas = svg("svg", { class: "jd-drawing", role: "listbox", "aria-label": "hosts and ranks", tabindex: -1 }, parent);
  const network = svg("g", { class: "jd-networks", "aria-hidden": "true" });
  const flows = svg("g", { class: "jd-flows", "aria-hidden": "true" });
  const defs = svg("defs", {});
  const size = { viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 9, markerHeight: 9 };
  // Its own: in a view that is hidden it is drawn for nobody.
  const arrow = ownId("arrow");
  const marker = svg("marker", { id: arrow, ...size, orient: "auto", markerUnits: "userSpaceOnUse" }, defs);
  svg("path", { class: "jd-arrow", d: "M0.5 0.5L7.5 4L0.5 7.5Z" }, marker);
  const labels = svg("g", { class: "jd-labels", "aria-hidden": "true" });
  const grid = svg("g", { class: "jd-grid", "aria-hidden": "true" });
  return { canvas, network, grid, flows, labels, defs, arrow };
}

/**
 * The drawing: keyed hosts and seats, and the one that is looked at.
 * @param {Element} parent
 * @param {(key: string) => void} onLook names the seat or host that is pointed at or focused, or ""
 * @param {(rank: number) => void} onOpen
 * @param {(across: string) => void} [onArranged] names the axis that goes across, or ""
 */
export function createDrawing(parent, onLook, onOpen = () => {}, onArranged) {
  /** @type {[Topology, number] | null} */
  let latest = null;
  const redraw = () => latest && update(...latest);
  const tools = html("div", "jd-tools", parent);
  const arrangement = createArrangement(tools, redraw, onArranged);
  const filter = createFilter(tools, redraw);
  const { canvas, network, grid, flows, labels, defs, arrow } = createCanvas(parent);
  const frames = new Map();
  const cells = new Map();
  /** @type {Plan} */
  let current;
  /** @type {string[]} */
  let order = [];
  let drawn = "";
  let opened = "";
  const seats = {
    select(key) {
      for (const each of order) write(cells.get(each).node, "aria-selected", String(each === key));
      if (!cells.has(key)) return;
      addRing(cells.get(key));
      for (const each of order) write(cells.get(each).node, "tabindex", each === key ? 0 : -1);
    },
    walk: (key, arrow) => cells.get(neighbour(order, cells, key, arrow)).node.focus(),
  };
  listen(canvas, {
    seats,
    onLook,
    onOpen,
    onGroup(key) {
      opened = opened === key ? "" : key;
      redraw();
      cells.get(key)?.node.focus(); // it may have been moved
    },
    tileAt(x, y) {
      const { left, top, width } = canvas.getBoundingClientRect();
      const scale = current.width / width;
      return tileAt(current, (x - left) * scale, (y - top) * scale)?.key ?? "";
    },
  });

  /** The node of one group in its place. @param {GroupPlan} place */
  function layOneGroup(place) {
    const made = cells.get(place.key) ?? makeGroup(place.key);
    cells.set(place.key, made);
    layGroup(made, place);
    return made.node;
  }

  /** The nodes of seats in their places. @param {HostPlan | Grid} place */
  function laySeats(place) {
    return place.seats.map((seat) => {
      const made = cells.get(seat.key) ?? makeCell(seat, current.dense);
      cells.set(seat.key, Object.assign(made, { seat, x: place.x + seat.x, y: place.y + seat.y }));
      write(made.node, "transform", `translate(${seat.x},${seat.y})`);
      return made.node;
    });
  }

  /** The nodes of one host in their place. @param {HostPlan} place @param {Label[]} words to add to */
  function layOne(place, words) {
    const frame = frames.get(place.host.name) ?? makeHost();
    frames.set(place.host.name, frame);
    layHost(frame, place);
    const own = drawLinks(frame.links, place);
    words.push(...own.map((label) => ({ ...label, x: place.x + label.x, y: place.y + label.y })));
    const members = laySeats(place);
    const { box, links, head, foot } = frame;
    arrange(frame.node, [box, links, head, ...members, foot]);
    return frame.node;
  }

  function layout(/** @type {Topology} */ state, /** @type {number} */ width, across) {
    current = plan(state, width / scaleFor(width), opened, across);
    const height = Math.ceil(current.height);
    write(canvas, "width", width);
    write(canvas, "height", Math.ceil((height * width) / current.width));
    write(canvas, "viewBox", `0 0 ${current.width} ${height}`);
    const places = seatsIn(current);
    const wanted = new Map(places.map((seat) => [seat.key, `${seat.devices} ${seat.isShared}`]));
    for (const { key } of current.groups) wanted.set(key, "group");
    for (const [key, { seat, dense }] of cells) {
      // A seat that got other GPUs is made again: it has a column for each.
      const made = dense === undefined ? "group" : dense === current.dense && `${seat.devices} ${seat.isShared}`;
      if (wanted.get(key) !== made) cells.delete(key);
    }
    const names = new Set(current.hosts.map((place) => place.host.name));
    for (const name of frames.keys()) if (!names.has(name)) frames.delete(name);
    const words = drawNetwork(network, current.network);
    const groups = current.groups.map(layOneGroup);
    const hosts = current.hosts.map((place) => layOne(place, words));
    drawLabels(labels, words);
    drawFrames(grid, current.grid);
    const seats = current.grid ? laySeats(current.grid) : [];
    const last = current.groups.findIndex((group) => group.isOpen) + 1;
    arrange(canvas, [defs, network, grid, ...seats, ...groups.slice(0, last), ...hosts, ...groups.slice(last), flows, labels]);
    const [before, after] = [current.groups.slice(0, last), current.groups.slice(last)];
    order = [...before, ...places, ...after].map((each) => each.key);
    // A list box without anything to choose is none.
    write(canvas, "role", order.length ? "listbox" : "img");
    const isReachable = order.some((key) => cells.get(key).node.getAttribute("tabindex") === "0");
    if (!isReachable && order.length) write(cells.get(order[0]).node, "tabindex", 0);
  }

  /** @param {Topology} whole @param {number} width */
  function update(whole, width) {
    latest = [whole, width];
    const state = filter.apply(whole);
    const across = arrangement.offer(countSeats(state.hosts) > MOST_DENSE ? [] : (state.axes?.[0] ?? []));
    const grid = across && JSON.stringify([across, state.axes, state.hosts.map((host) => host.state)]);
    const shape = `${width} ${opened} ${grid}\n${shapeOf(state)}`;
    if (shape !== drawn) layout(state, width, across);
    drawn = shape;
    filter.offer(current.dense);
    const calls = callsOf(whole);
    for (const { key, first, count } of current.groups) {
      updateGroup(cells.get(key), state.hosts.slice(first, first + count), calls.awaited);
    }
    for (const place of current.hosts) updateHost(frames.get(place.host.name), state.hosts[place.at], place);
    const known = new Map();
    for (const { key, rank, at } of seatsIn(current)) {
      if (!known.has(at)) known.set(at, byNumber(state.hosts[at]));
      const { host, engines, gpus } = known.get(at);
      updateCell(cells.get(key), engines.get(rank), host, gpus, calls.awaited.has(rank));
    }
    drawFlows(flows, current, calls, arrow);
  }
  return {
    update,
    /** The groups of the picture; none while each host has a place of its own. */
    groups: () => current?.groups ?? [],
    /** Put the focus on the seat of a rank, or on the group that it is in. @param {number} rank */
    focus(rank) {
      const group = current?.groups.find((each) => each.tiles.some((tile) => tile.rank === rank));
      (cells.get(`rank ${rank}`) ?? cells.get(group?.key))?.node.focus();
    },
  };
}
