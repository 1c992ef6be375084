import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Signal, type ISignal } from '@lumino/signaling';

import type { RankDebugger } from './debugger/rank_debugger';
import type { Notebooks } from './notebooks';
import type { ClusterServer } from './server';
import { showError, showWarning } from './toasts';

/** Which rank JupyterLab's debugger drives. What that takes is loaded at the first choice. */
export class Debugging {
  cluster = '';
  /** null: the debugger is the kernel's. */
  rank: number | null = null;
  /** A choice is being carried out. */
  isBusy = false;

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly server: ClusterServer,
    private readonly notebooks: Notebooks
  ) {}

  get changed(): ISignal<this, void> {
    return this.#changed;
  }

  /** Debug a rank, or none; what is in the way is said. */
  async choose(cluster: string, rank: number | null): Promise<void> {
    const turn = ++this.#turn;
    let problem = '';
    this.isBusy = true;
    try {
      const loaded = await (this.#loaded ??= this.load());
      await (rank === null ? loaded.leave() : loaded.debug(cluster, rank));
    } catch (error) {
      problem = (error as Error).message;
    }
    if (turn !== this.#turn) return; // there is another choice since
    this.isBusy = false;
    if (problem) showError(`Rank ${rank} of ${cluster} cannot be debugged: ${problem}`);
    this.set(cluster, problem ? null : rank);
  }

  private load(): Promise<RankDebugger> {
    return import(/* webpackChunkName: "debugger" */ './debugger/rank_debugger').then(({ RankDebugger }) =>
      RankDebugger.load(this.app, this.server, this.notebooks, reason => {
        if (reason) showWarning(`Rank ${this.rank} of ${this.cluster} is not debugged any longer: ${reason}`);
        if (!this.isBusy) this.set('', null);
      })
    ).catch(error => {
      this.#loaded = null; // the next choice tries again
      throw error;
    });
  }

  private set(cluster: string, rank: number | null): void {
    this.cluster = cluster;
    this.rank = rank;
    this.#changed.emit();
  }

  readonly #changed = new Signal<this, void>(this);
  #turn = 0;
  #loaded: Promise<RankDebugger> | null = null;
}
