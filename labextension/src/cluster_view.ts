import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { createView, type IView } from '../../jupyter_dist/views/static/view.js';
import type { Clusters } from './clusters';
import { element } from './dom';
import { HistoryView } from './history_view';
import { OutputView, RankLog } from './output_view';
import { Section } from './section';
import type { FeedMessage, ITopology } from './wire';

/** Everything about the chosen cluster: its picture, the output of its cell, the log of a rank. */
export class ClusterView {
  readonly node = element('div', { class: 'jdp-chosen' });
  readonly output: OutputView;
  private readonly _topology = new Section('Topology', 'jdp-topology-section');
  private readonly _cell = new Section('Output', 'jdp-output-section');
  private readonly _log = new Section('Log of a rank', 'jdp-log-section', false);
  private readonly _past = new Section('History', 'jdp-history-section', false);
  private readonly _history = new HistoryView();
  private readonly _rankLog: RankLog;
  private _view: IView | null = null;
  private _shown: string | null = null;
  private _state: ITopology | null = null;

  constructor(
    private readonly clusters: Clusters,
    registry: IRenderMimeRegistry
  ) {
    this.output = new OutputView(registry);
    this._rankLog = new RankLog(rank => clusters.followRank(rank));
    this._cell.body.append(this.output.node);
    this._log.body.append(this._rankLog.node);
    this._log.node.addEventListener('toggle', () => this.followLog());
    this._past.body.append(this._history.node);
    this._past.node.addEventListener('toggle', () => this._history.draw());
    this.node.append(this._topology.node, this._cell.node, this._log.node, this._past.node);
    clusters.news.connect((_, message) => this.take(message));
  }

  /** Show the chosen cluster; another one starts with an empty picture. */
  refresh(): void {
    const name = this.clusters.chosen;
    if (name === this._shown) return;
    this._shown = name;
    this._state = null;
    this._view?.destroy();
    this._topology.body.replaceChildren();
    this._view = name === null ? null : this.makeView(name);
    this._cell.title = 'Output';
    this.output.clear();
    this._rankLog.clear();
    this._rankLog.offer(0);
    this._history.clear();
  }

  /** Press a button of the picture, so that the request's honest state is seen where it always is. */
  press(selector: string): void {
    this._topology.node.open = true;
    this.node.querySelector<HTMLButtonElement>(`.jd-topology ${selector}`)?.click();
  }

  dispose(): void {
    this._view?.destroy();
    this.output.dispose();
  }

  private makeView(name: string): IView {
    return createView(
      this._topology.body,
      request => void this.clusters.request(name, request),
      { source: 'the Jupyter server' }
    );
  }

  private take(message: FeedMessage): void {
    if (message.kind === 'start' || message.kind === 'clusters' || message.cluster !== this._shown) return;
    switch (message.kind) {
      case 'topology':
        this.showTopology(message.topology);
        break;
      case 'cell':
        this._cell.title = message.is_running ? `Output of ${message.label} (running)` : `Output of ${message.label}`;
        void this.output.show(message);
        break;
      case 'tail':
        this._rankLog.show(message.rank, message.text);
        break;
      case 'reply':
        this._view?.reply(message);
        break;
      case 'gone':
        if (this._state) this._view?.update({ ...this._state, state: 'gone', note: message.text });
        break;
    }
  }

  private showTopology(topology: ITopology): void {
    this._state = topology;
    this._view?.update(topology);
    this._rankLog.offer(topology.hosts.reduce((count, host) => count + host.engines.length, 0));
    this._history.take(topology, this._past.node.open);
    this.followLog();
  }

  /** Lines of a rank travel only while somebody looks at them. */
  private followLog(): void {
    if (this._state) this.clusters.followRank(this._log.node.open ? this._rankLog.rank : null);
  }
}
