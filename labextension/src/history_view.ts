import { createHistory, curve, type Quantity } from '../../jupyter_dist/views/topology/static/history.js';
import { element } from './dom';
import type { ITopology } from './wire';

const ALL = 'all';

interface ICurve {
  what: Quantity;
  set: ReturnType<typeof curve>['set'];
}

/** Curves of the last two minutes, of all ranks together or of one. */
export class HistoryView {
  readonly node = element('div', { class: 'jdp-history' });
  readonly #select = element('select', { class: 'jp-mod-styled', 'aria-label': 'whose history' });
  readonly #curves = element('div', { class: 'jdp-curves' });
  #history = createHistory();
  #drawn: ICurve[] = [];
  #hasGpu = false;
  #ranks = 0;
  #offered = 0;

  constructor() {
    this.#select.addEventListener('change', () => this.draw());
    this.node.append(this.#select, this.#curves);
    this.clear();
  }

  /** Forget what was seen: another cluster is looked at. */
  clear(): void {
    this.#history = createHistory();
    this.#ranks = this.#offered = 0;
    this.#select.replaceChildren(element('option', { value: ALL }, 'all ranks'));
    this.make(false);
  }

  /** Remember a picture of the cluster; curves are drawn only while someone `isLooking`. */
  take(topology: ITopology, isLooking: boolean): void {
    this.#history.take(topology);
    const hasGpu = topology.hosts.some(host => host.gpus.length > 0);
    if (hasGpu !== this.#hasGpu) this.make(hasGpu);
    this.#ranks = topology.hosts.reduce((count, host) => count + host.engines.length, 0);
    if (isLooking) this.draw();
  }

  /** Draw what is remembered. */
  draw(): void {
    this.offer(this.#ranks);
    const rank = this.#select.value === ALL ? null : Number(this.#select.value);
    for (const { what, set } of this.#drawn) set(this.#history.samples(rank, what));
  }

  private make(hasGpu: boolean): void {
    this.#hasGpu = hasGpu;
    this.#curves.replaceChildren();
    const quantities: [Quantity, string][] = [
      ['utilisation', hasGpu ? 'GPU utilisation' : 'CPU'],
      ['rss', 'memory']
    ];
    if (hasGpu) quantities.splice(1, 0, ['gpu_memory', 'GPU memory']);
    this.#drawn = quantities.map(([what, label]) => ({
      what,
      set: curve(this.#curves, this.#history.samples(null, what), label).set
    }));
  }

  /** Only to those who look: thousands of them take their time. */
  private offer(ranks: number): void {
    if (ranks === this.#offered) return;
    this.#offered = ranks;
    const before = this.#select.value;
    this.#select.replaceChildren(
      element('option', { value: ALL }, 'all ranks'),
      ...Array.from({ length: ranks }, (_, rank) => element('option', { value: rank }, `rank ${rank}`))
    );
    if (before !== ALL && Number(before) < ranks) this.#select.value = before;
  }
}
