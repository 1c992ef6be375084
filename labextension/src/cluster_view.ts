import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { createReceiver } from '../../jupyter_dist/views/topology/static/changes.js';
import { createView, type IView } from '../../jupyter_dist/views/topology/static/view.js';
import type { Clusters } from './clusters';
import type { Debugging } from './debugging';
import { element } from './dom';
import { HistoryView } from './history_view';
import { OutputView, RankLog } from './output_view';
import { RankChoice } from './rank_choice';
import { Section } from './section';
import type { FeedMessage, ITopology } from './wire';

const PICTURE_WITHIN_MS = 5000;

/** Everything about the chosen cluster: its picture, the output of its cell, the log of a rank. */
export class ClusterView {
  readonly node = element('div', { class: 'jdp-chosen' });
  readonly output: OutputView;
  readonly #topology = new Section('Topology', 'jdp-topology-section');
  readonly #cell = new Section('Output', 'jdp-output-section');
  readonly #log = new Section('Log of a rank', 'jdp-log-section', false);
  readonly #past = new Section('History', 'jdp-history-section', false);
  readonly #history = new HistoryView();
  readonly #rankLog: RankLog;
  readonly #choice: RankChoice;
  #view: IView | null = null;
  #receiver = createReceiver();
  #shown: string | null = null;
  #state: ITopology | null = null;
  #isGone = false;
  #onPicture = (): void => undefined;

  constructor(
    private readonly clusters: Clusters,
    registry: IRenderMimeRegistry,
    debugging: Debugging
  ) {
    this.output = new OutputView(registry);
    this.#rankLog = new RankLog(rank => clusters.followRank(rank));
    this.#choice = new RankChoice(debugging);
    this.#cell.body.append(this.output.node);
    this.#log.body.append(this.#rankLog.node);
    this.#log.node.addEventListener('toggle', () => this.followLog());
    this.#past.body.append(this.#history.node);
    this.#past.node.addEventListener('toggle', () => this.#history.draw());
    this.node.append(this.#topology.node, this.#choice.node, this.#cell.node, this.#log.node, this.#past.node);
    clusters.news.connect((_, message) => this.take(message));
  }

  /** Show the chosen cluster; another one starts with an empty picture. */
  refresh(): void {
    const name = this.clusters.chosen;
    if (name !== this.#shown) this.reset(name);
  }

  /** Whether a button of the picture can be pressed. */
  canPress(selector: string): boolean {
    const button = this.button(selector);
    return button !== null && !button.disabled;
  }

  /**
   * Press a button of the picture, so that the request's honest state is seen where it always is.
   * What has just come into view may have to wait for its picture. Tells whether it was pressed.
   */
  async press(selector: string): Promise<boolean> {
    const name = this.#shown;
    this.#topology.node.open = true;
    if (!this.canPress(selector)) await this.nextPicture();
    if (this.#shown !== name || !this.canPress(selector)) return false;
    this.button(selector)?.click();
    return true;
  }

  dispose(): void {
    this.#view?.destroy();
    this.output.dispose();
  }

  private button(selector: string): HTMLButtonElement | null {
    return this.node.querySelector(`.jd-topology ${selector}`);
  }

  private nextPicture(): Promise<void> {
    return new Promise(resolve => {
      this.#onPicture = resolve;
      window.setTimeout(resolve, PICTURE_WITHIN_MS);
    });
  }

  private reset(name: string | null): void {
    this.#shown = name;
    this.#state = null;
    this.#receiver = createReceiver();
    this.#isGone = false;
    this.#view?.destroy();
    this.#topology.body.replaceChildren();
    this.#view = name === null ? null : this.makeView(name);
    this.#cell.title = 'Output';
    this.output.clear();
    this.#rankLog.clear();
    this.#rankLog.offer(0);
    this.#choice.offer(name ?? '', 0);
    this.#history.clear();
  }

  private makeView(name: string): IView {
    return createView(
      this.#topology.body,
      request => void this.clusters.request(name, request),
      { source: 'the Jupyter server' }
    );
  }

  private take(message: FeedMessage): void {
    if (message.kind === 'start' || message.kind === 'clusters' || message.cluster !== this.#shown) return;
    // After its end only another cluster of the same name has anything to say.
    if (this.#isGone && message.kind !== 'gone' && message.kind !== 'reply') this.reset(this.#shown);
    switch (message.kind) {
      case 'topology':
        this.takeTopology(message.told);
        break;
      case 'cell':
        this.#cell.title = message.is_running ? `Output of ${message.label} (running)` : `Output of ${message.label}`;
        void this.output.show(message);
        break;
      case 'tail':
        this.#rankLog.show(message.rank, message.text);
        break;
      case 'reply':
        this.#view?.reply(message);
        break;
      case 'gone':
        this.#isGone = true;
        if (this.#state) this.#view?.update({ ...this.#state, state: 'gone', note: message.text });
        break;
    }
  }

  private takeTopology(told: object): void {
    const topology = this.#receiver.take(told) as ITopology | null;
    if (topology) this.showTopology(topology);
    else this.clusters.feed.askForWhole();
  }

  private showTopology(topology: ITopology): void {
    this.#state = topology;
    this.#view?.update(topology);
    this.#history.take(topology, this.#past.node.open);
    this.followLog();
    this.#choice.offer(topology.cluster, rankCount(topology));
    this.#onPicture();
  }

  /** Lines of a rank travel only while someone looks at them. */
  private followLog(): void {
    if (!this.#state) return;
    if (this.#log.node.open) this.#rankLog.offer(rankCount(this.#state));
    this.clusters.followRank(this.#log.node.open ? this.#rankLog.rank : null);
  }
}

function rankCount({ hosts }: ITopology): number {
  return hosts.reduce((count, host) => count + host.engines.length, 0);
}
