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

/** Write text only where it has changed, so that nothing selected or read aloud is disturbed. */
export function setText(node: Element, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}
