import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { ClusterList } from './cluster_list';
import { ClusterView } from './cluster_view';
import type { Clusters } from './clusters';
import { button, element, setText } from './dom';
import { clustersIcon } from './icon';
import { StartForm } from './start_form';

/** What the user may set; schema/plugin.json says the same. */
export interface IPanelSettings {
  showStatusItem: boolean;
  defaultHosts: string;
  outputLines: number;
}

/** What the panel cannot do by itself. */
export interface IPanelActions {
  attach(): void;
  canAttach(): boolean;
}

/** The panel "Clusters": list, start form, and the chosen cluster, none of it by way of a kernel. */
export class ClustersPanel extends Widget {
  readonly form: StartForm;
  private readonly _list: ClusterList;
  private readonly _view: ClusterView;
  private readonly _problem = element('div', { class: 'jdp-problem', role: 'status', hidden: true });
  private readonly _none = element('p', { class: 'jdp-empty' });
  private readonly _gone = element('p', { class: 'jdp-empty jdp-gone' });
  private readonly _attach: HTMLButtonElement;

  constructor(
    private readonly clusters: Clusters,
    private readonly actions: IPanelActions,
    registry: IRenderMimeRegistry
  ) {
    super();
    this.id = 'jupyter-dist-clusters';
    this.title.icon = clustersIcon;
    this.title.caption = 'Clusters';
    this.addClass('jdp-panel');
    this.form = new StartForm(clusters);
    this._list = new ClusterList(clusters);
    this._view = new ClusterView(clusters, registry);
    this._attach = button('Attach', () => actions.attach(), 'jdp-attach');
    this._attach.setAttribute('aria-label', 'Attach notebook');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Clusters');
    this.node.append(
      this.head(), this._problem, this.form.node, this._list.node, this._none, this._gone, this._view.node
    );
    clusters.changed.connect(this.refresh, this);
    this.refresh();
  }

  configure(settings: IPanelSettings): void {
    this.form.defaultHosts = settings.defaultHosts;
    this._view.output.lines = settings.outputLines;
  }

  /** Press a button of the chosen cluster's picture, by its selector. */
  press(selector: string): void {
    this._view.press(selector);
  }

  /** Write what has changed; also called when another notebook has come to the front. */
  refresh(): void {
    const { feed, rows, chosen, chosenRow, isKnown } = this.clusters;
    this._problem.hidden = !feed.problem;
    setText(this._problem, feed.problem);
    this._list.refresh();
    this._none.hidden = rows.length > 0 || !isKnown;
    setText(this._none, 'No cluster of yours is running. Start one here, or in a notebook with %dist_start.');
    this._gone.hidden = chosen === null || chosenRow !== null || !isKnown;
    setText(this._gone, `${chosen} is not running any more.`);
    this._view.node.hidden = chosen === null;
    this._attach.disabled = !this.actions.canAttach();
    this._attach.title = this.attachHint();
    this._view.refresh();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.clusters.changed.disconnect(this.refresh, this);
    this._view.dispose();
    super.dispose();
  }

  protected override onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    this.node.querySelector<HTMLElement>('button, summary')?.focus();
  }

  private head(): HTMLElement {
    const start = button('Start…', () => this.toggleForm(), 'jdp-open-form');
    return element('div', { class: 'jdp-head' }, element('h2', {}, 'Clusters'), this._attach, start);
  }

  private attachHint(): string {
    const { chosenRow } = this.clusters;
    if (chosenRow === null) return 'Choose a cluster first';
    if (this._attach.disabled) return 'Open a notebook first';
    return `Insert a cell that attaches the notebook to ${chosenRow.name}`;
  }

  private toggleForm(): void {
    if (this.form.isOpen) this.form.close();
    else void this.form.open();
  }
}
