type Attributes = Record<string, string | number | boolean>;

/** A new element with its attributes (false leaves one out) and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children);
  return node;
}

/** A glyph of a state, given as a path in a 12 × 12 box; words beside it say the same. */
export function glyph(path: string): SVGElement {
  const namespace = 'http://www.w3.org/2000/svg';
  const picture = document.createElementNS(namespace, 'svg');
  const line = document.createElementNS(namespace, 'path');
  const attributes = { viewBox: '0 0 12 12', width: '11', height: '11', 'aria-hidden': 'true', class: 'jdp-glyph' };
  for (const [name, value] of Object.entries(attributes)) picture.setAttribute(name, value);
  line.setAttribute('d', path);
  picture.append(line);
  return picture;
}

/** A button that looks like JupyterLab's own. */
export function button(label: string, onClick: () => void, className = ''): HTMLButtonElement {
  const classes = `jp-mod-styled jp-mod-reject jdp-button ${className}`.trim();
  const node = element('button', { type: 'button', class: classes }, label);
  node.addEventListener('click', onClick);
  return node;
}

/** A field with its label above it. */
export function field(label: string, control: HTMLElement, hint = ''): HTMLLabelElement {
  const node = element('label', { class: 'jdp-field' }, element('span', {}, label), control);
  if (hint) node.append(element('small', {}, hint));
  return node;
}

/** Options for ranks 0 to `count` - 1. */
export function rankOptions(count: number): HTMLOptionElement[] {
  return Array.from({ length: count }, (_, rank) => element('option', { value: rank }, `rank ${rank}`));
}

/** Write text only where it has changed, so that nothing selected or read aloud is disturbed. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}
