import { createHistory, curve, type Quantity } from '../../jupyter_dist/views/static/history.js';
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
  private readonly _select = element('select', { class: 'jp-mod-styled', 'aria-label': 'whose history' });
  private readonly _curves = element('div', { class: 'jdp-curves' });
  private _history = createHistory();
  private _drawn: ICurve[] = [];
  private _hasGpu = false;
  private _ranks = -1;

  constructor() {
    this._select.addEventListener('change', () => this.draw());
    this.node.append(this._select, this._curves);
    this.clear();
  }

  /** Forget what was seen: another cluster is looked at. */
  clear(): void {
    this._history = createHistory();
    this._ranks = -1;
    this._select.replaceChildren(element('option', { value: ALL }, 'all ranks'));
    this.make(false);
  }

  /** Remember a picture of the cluster; curves are drawn only while somebody `isLooking`. */
  take(topology: ITopology, isLooking: boolean): void {
    this._history.take(topology);
    const hasGpu = topology.hosts.some(host => host.gpus.length > 0);
    if (hasGpu !== this._hasGpu) this.make(hasGpu);
    this.offer(topology.hosts.reduce((count, host) => count + host.engines.length, 0));
    if (isLooking) this.draw();
  }

  /** Draw what is remembered. */
  draw(): void {
    const rank = this._select.value === ALL ? null : Number(this._select.value);
    for (const { what, set } of this._drawn) set(this._history.samples(rank, what));
  }

  private make(hasGpu: boolean): void {
    this._hasGpu = hasGpu;
    this._curves.replaceChildren();
    const quantities: [Quantity, string][] = [
      ['utilisation', hasGpu ? 'GPU utilisation' : 'CPU'],
      ['rss', 'memory']
    ];
    if (hasGpu) quantities.splice(1, 0, ['gpu_memory', 'GPU memory']);
    this._drawn = quantities.map(([what, label]) => ({
      what,
      set: curve(this._curves, this._history.samples(null, what), label).set
    }));
  }

  private offer(ranks: number): void {
    if (ranks === this._ranks) return;
    this._ranks = ranks;
    const before = this._select.value;
    this._select.replaceChildren(
      element('option', { value: ALL }, 'all ranks'),
      ...Array.from({ length: ranks }, (_, rank) => element('option', { value: rank }, `rank ${rank}`))
    );
    if (before !== ALL && Number(before) < ranks) this._select.value = before;
  }
}
