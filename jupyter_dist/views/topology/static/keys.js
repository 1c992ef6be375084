/** What is pointed at, clicked and walked over with keys in the drawing. */

const ARROWS = ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"];

/** The seat an arrow key leads to: the next in order sideways, the nearest one up or down. */
export function neighbour(order, cells, key, arrow) {
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

/** @param {EventTarget | null} target */
const keyOf = (target) => /** @type {Element} */ (target).closest?.("[data-key]")?.getAttribute("data-key") ?? "";

/**
 * Hear pointer, focus and keys.
 * @param {Element} canvas
 * @param {object} told
 * @param {{select: (key: string) => void, walk: (key: string, arrow: string) => void}} told.seats
 * @param {(key: string) => void} told.onLook
 * @param {(rank: number) => void} told.onOpen
 * @param {(key: string) => void} told.onGroup a group was clicked
 * @param {(x: number, y: number) => string} told.tileAt the key of the tile at a place on the screen, or ""
 */
export function listen(canvas, { seats, onLook, onOpen, onGroup, tileAt }) {
  const open = (/** @type {Event} */ event) => {
    const node = /** @type {Element} */ (event.target).closest?.(".jd-group, [data-rank]");
    if (node?.hasAttribute("data-rank")) onOpen(Number(node.getAttribute("data-rank")));
    else if (node) onGroup(keyOf(node));
  };
  let focused = "";
  canvas.addEventListener("pointerover", (event) => onLook(keyOf(event.target) || focused));
  canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
    if (!/** @type {Element} */ (event.target).closest?.(".jd-group")) return;
    onLook(tileAt(event.clientX, event.clientY) || keyOf(event.target));
  });
  canvas.addEventListener("pointerleave", () => onLook(focused));
  canvas.addEventListener("focusout", () => onLook((focused = "")));
  canvas.addEventListener("click", open);
  canvas.addEventListener("focusin", (event) => {
    focused = keyOf(event.target);
    seats.select(focused);
    onLook(focused);
  });
  canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const key = keyOf(event.target);
    const isOpening = event.key === "Enter" || event.key === " ";
    if (!key || !(isOpening || ARROWS.includes(event.key))) return;
    event.preventDefault();
    event.stopPropagation();
    if (isOpening) open(event);
    else seats.walk(key, event.key);
  });
}
