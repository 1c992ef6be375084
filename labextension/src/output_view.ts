import type { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { element, rankOptions, setText } from './dom';
import type { ICellOutput } from './wire';

const HTML = 'text/html';

/**
 * Output of the running or last cell.
 *
 * Ranks may print anything: JupyterLab's own renderer draws it as it draws untrusted output, so
 * that no script and no style of it gets into the page.
 */
export class OutputView {
  readonly node = element('div', { class: 'jdp-output', tabindex: 0, role: 'region', 'aria-label': 'output' });
  readonly #empty = element('p', { class: 'jdp-empty' }, 'No cell has run on it yet.');
  readonly #renderer: IRenderMime.IRenderer;
  #next: ICellOutput | null = null;
  #isRendering = false;

  constructor(private readonly registry: IRenderMimeRegistry) {
    this.#renderer = registry.createRenderer(HTML);
    this.node.append(this.#empty);
    MessageLoop.sendMessage(this.#renderer, Widget.Msg.BeforeAttach);
    this.node.append(this.#renderer.node);
    MessageLoop.sendMessage(this.#renderer, Widget.Msg.AfterAttach);
  }

  /** How many lines are seen at once; the rest is scrolled to. */
  set lines(lines: number) {
    this.node.style.setProperty('--jdp-lines', String(lines));
  }

  /** Nothing is known of a cell. */
  clear(): void {
    this.#next = null;
    this.#empty.hidden = false;
    this.#renderer.node.hidden = true;
  }

  /** Show the latest output; what came while the last was being drawn is skipped but for the newest. */
  async show(cell: ICellOutput): Promise<void> {
    this.#next = cell;
    if (this.#isRendering) return;
    this.#isRendering = true;
    try {
      for (let next = this.taken(); next; next = this.taken()) await this.render(next);
    } finally {
      this.#isRendering = false;
    }
  }

  dispose(): void {
    this.#renderer.dispose();
  }

  private taken(): ICellOutput | null {
    const next = this.#next;
    this.#next = null;
    return next;
  }

  private async render(cell: ICellOutput): Promise<void> {
    const { node } = this;
    const isAtEnd = node.scrollTop + node.clientHeight >= node.scrollHeight - 4;
    const open = this.openDetails();
    const model = this.registry.createModel({ data: { [HTML]: cell.html, 'text/plain': cell.text }, trusted: false });
    await this.#renderer.renderModel(model);
    this.#empty.hidden = true;
    this.#renderer.node.hidden = false;
    node.dataset['cell'] = cell.label;
    for (const details of this.details()) {
      if (open.has(titleOf(details))) details.open = true;
    }
    if (isAtEnd && cell.is_running) node.scrollTop = node.scrollHeight;
  }

  private details(): HTMLDetailsElement[] {
    return [...this.#renderer.node.querySelectorAll('details')];
  }

  private openDetails(): Set<string> {
    return new Set(this.details().filter(details => details.open).map(titleOf));
  }
}

function titleOf(details: HTMLDetailsElement): string {
  return details.querySelector('summary')?.textContent ?? '';
}

/** The last lines of one rank, which is chosen above them. */
export class RankLog {
  readonly node = element('div', { class: 'jdp-log' });
  readonly #select = element('select', { class: 'jp-mod-styled', 'aria-label': 'rank' });
  readonly #text = element('pre', { tabindex: 0, role: 'region', 'aria-label': 'last lines of the rank' });
  #ranks = -1;

  /** @param onChoice called with the rank whose lines are wanted */
  constructor(onChoice: (rank: number) => void) {
    this.#select.addEventListener('change', () => {
      setText(this.#text, '');
      onChoice(this.rank);
    });
    this.node.append(this.#select, this.#text);
  }

  get rank(): number {
    return Number(this.#select.value);
  }

  /** Offer ranks 0 to `count` - 1; the chosen one stays chosen while it exists. */
  offer(count: number): void {
    if (count === this.#ranks) return;
    const before = this.#ranks > 0 ? Math.min(this.rank, count - 1) : 0;
    this.#ranks = count;
    this.#select.replaceChildren(...rankOptions(count));
    this.#select.value = String(Math.max(0, before));
  }

  clear(): void {
    setText(this.#text, '');
  }

  show(rank: number, text: string): void {
    if (rank !== this.rank) return;
    const isAtEnd = this.#text.scrollTop + this.#text.clientHeight >= this.#text.scrollHeight - 4;
    setText(this.#text, text || 'This rank has said nothing in this cell.');
    if (isAtEnd) this.#text.scrollTop = this.#text.scrollHeight;
  }
}
