/** The drawing: keyed hosts and seats that stay in place, and the keys that walk over them. */

import { drawLinks } from "./links.js";
import { svg, write } from "./nodes.js";
import { plan, shapeOf } from "./plan.js";
import { makeCell, makeHost, updateCell, updateHost } from "./seats.js";

/** The drawing: keyed hosts and seats, and the one that is looked at. */
export function createDrawing(/** @type {Element} */ parent, /** @type {(key: string) => void} */ onLook) {
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
