import { STATES } from '../../jupyter_dist/views/topology/static/words.js';
import type { Clusters } from './clusters';
import { element, glyph } from './dom';
import type { IClusterRow } from './wire';
import { activity, counted, warnings } from './words';

/** The list of this user's clusters; the chosen one is pressed. */
export class ClusterList {
  readonly node = element('ul', { class: 'jdp-clusters', 'aria-label': 'clusters' });
  readonly #buttons = new Map<string, HTMLButtonElement>();

  constructor(private readonly clusters: Clusters) {}

  refresh(): void {
    const rows = this.clusters.rows;
    const names = new Set(rows.map(row => row.name));
    for (const [name, button] of this.#buttons) {
      if (names.has(name)) continue;
      button.parentElement?.remove();
      this.#buttons.delete(name);
    }
    rows.forEach((row, i) => {
      const button = this.#buttons.get(row.name) ?? this.add(row.name);
      const item = button.parentElement;
      const there = this.node.children[i];
      if (item && there !== item) this.node.insertBefore(item, there ?? null);
      this.write(button, row);
    });
    this.node.hidden = rows.length === 0;
  }

  private add(name: string): HTMLButtonElement {
    const button = element('button', { type: 'button', class: 'jdp-cluster', 'data-cluster': name });
    button.addEventListener('click', () => this.clusters.choose(name));
    this.#buttons.set(name, button);
    this.node.append(element('li', {}, button));
    return button;
  }

  private write(button: HTMLButtonElement, row: IClusterRow): void {
    button.setAttribute('aria-pressed', String(row.name === this.clusters.chosen));
    button.dataset['state'] = row.state;
    const owner = row.owner ? ` · ${row.owner}` : '';
    const size = `${counted(row.world_size, 'rank')} on ${hostsOf(row)}${owner}`;
    const text = JSON.stringify([row, size]);
    if (button.dataset['written'] === text) return;
    button.dataset['written'] = text;
    const marks = warnings(row).map(({ state, text: words }) =>
      element('span', { class: 'jdp-mark', 'data-mark': state }, glyph(STATES[state]?.glyph ?? ''), words)
    );
    button.replaceChildren(
      element('span', { class: 'jdp-cluster-name' }, row.name),
      element('span', { class: 'jdp-cluster-activity' }, activity(row)),
      element('span', { class: 'jdp-cluster-size' }, size),
      ...marks
    );
    if (row.note) button.append(element('span', { class: 'jdp-cluster-note' }, row.note));
  }
}

function hostsOf(row: IClusterRow): string {
  const [first] = row.hosts;
  if (row.hosts.length === 1 && first) return first;
  return counted(row.hosts.length, 'host');
}
