/** Nodes that are made once, and written only where a value changed. */

/** What was last written to each node, so that an unchanged value costs no DOM call. */
export const written = new WeakMap();

/** @param {Element} node @param {string} name @param {string | number} value */
export function write(node, name, value) {
  let known = written.get(node);
  if (!known) written.set(node, (known = {}));
  if (known[name] === value) return;
  known[name] = value;
  if (name === "text") node.textContent = String(value);
  else node.setAttribute(name, String(value));
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {Element} [parent] */
export function svg(tag, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const name in attributes) node.setAttribute(name, String(attributes[name]));
  parent?.append(node);
  return node;
}

/** @param {string} tag @param {string} className @param {Element} [parent] */
export function html(tag, className, parent) {
  const node = document.createElement(tag);
  node.className = className;
  parent?.append(node);
  return node;
}

/** A box with its label, hidden at first. @param {Element} parent @param {string} tag @param {string} words */
export function makeField(parent, className, tag, words) {
  const row = html("div", className, parent);
  row.hidden = true;
  const label = html("label", "", row);
  label.textContent = words;
  const box = /** @type {HTMLInputElement} */ (html(tag, "", label));
  // A notebook takes keys such as Enter and letters for itself otherwise.
  box.addEventListener("keydown", (event) => event.stopPropagation());
  return { row, box };
}

/**
 * An id that no other view on the page has; each widget brings a copy of this file, so none can count.
 * @param {string} what
 */
export const ownId = (what) => `jd-${what}-${Math.random().toString(36).slice(2)}`;
