import type { Debugging } from './debugging';
import { element, rankOptions } from './dom';

const NONE = '';

/** "Debug rank": the choice which rank of the shown cluster JupyterLab's debugger drives. */
export class RankChoice {
  readonly node: HTMLLabelElement;
  readonly #select = element('select', { class: 'jp-mod-styled' });
  #cluster = '';
  #ranks = -1;

  constructor(private readonly debugging: Debugging) {
    this.node = element('label', { class: 'jdp-choice' }, element('span', {}, 'Debug rank'), this.#select);
    this.#select.addEventListener('change', () => {
      const { value } = this.#select;
      void debugging.choose(this.#cluster, value === NONE ? null : Number(value));
      this.#select.setAttribute('aria-busy', 'true');
    });
    debugging.changed.connect(() => this.write());
  }

  /** Offer ranks 0 to `count` - 1 of a cluster. */
  offer(cluster: string, count: number): void {
    if (cluster === this.#cluster && count === this.#ranks) return;
    [this.#cluster, this.#ranks] = [cluster, count];
    this.#select.replaceChildren(element('option', { value: NONE }, 'none'), ...rankOptions(count));
    this.write();
  }

  private write(): void {
    const { cluster, rank } = this.debugging;
    this.#select.removeAttribute('aria-busy');
    this.#select.value = cluster === this.#cluster && rank !== null ? String(rank) : NONE;
  }
}
