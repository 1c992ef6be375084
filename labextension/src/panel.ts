import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { ClusterList } from './cluster_list';
import { ClusterView } from './cluster_view';
import type { Clusters } from './clusters';
import type { Debugging } from './debugging';
import { button, element, setText } from './dom';
import { clustersIcon } from './icon';
import { StartForm } from './start_form';
import { relation } from './words';

/** What the user may set; schema/plugin.json says the same. */
export interface IPanelSettings {
  showStatusItem: boolean;
  defaultHosts: string;
  outputLines: number;
}

/** What the panel cannot do on its own. */
export interface IPanelActions {
  attach(): void;
  canAttach(): boolean;
}

/** The panel "Clusters": list, start form, and the chosen cluster, none of it by way of a kernel. */
export class ClustersPanel extends Widget {
  readonly form: StartForm;
  readonly #list: ClusterList;
  readonly #view: ClusterView;
  readonly #problem = element('div', { class: 'jdp-problem', role: 'status', hidden: true });
  readonly #none = element('p', { class: 'jdp-empty' });
  readonly #gone = element('p', { class: 'jdp-empty jdp-gone' });
  readonly #relation = element('div', { class: 'jdp-relation' });
  readonly #relationText = element('span', { role: 'status' });
  readonly #pin: HTMLButtonElement;
  readonly #attach: HTMLButtonElement;
  readonly #look = (): void => {
    this.clusters.isLookedAt = this.isVisible && !document.hidden;
  };

  constructor(
    private readonly clusters: Clusters,
    private readonly actions: IPanelActions,
    registry: IRenderMimeRegistry,
    debugging: Debugging
  ) {
    super();
    this.id = 'jupyter-dist-clusters';
    this.title.icon = clustersIcon;
    this.title.caption = 'Clusters';
    this.addClass('jdp-panel');
    this.form = new StartForm(clusters);
    this.#list = new ClusterList(clusters);
    this.#view = new ClusterView(clusters, registry, debugging);
    this.#attach = button('Attach', () => actions.attach(), 'jdp-attach');
    this.#attach.setAttribute('aria-label', 'Attach notebook');
    this.#pin = button('Pin', () => (clusters.isPinned = !clusters.isPinned), 'jdp-pin');
    this.#relation.append(this.#relationText, this.#pin);
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Clusters');
    this.node.append(
      this.head(), this.#problem, this.form.node, this.#relation, this.#list.node, this.#none, this.#gone, this.#view.node
    );
    clusters.changed.connect(this.refresh, this);
    document.addEventListener('visibilitychange', this.#look);
    this.refresh();
  }

  configure(settings: IPanelSettings): void {
    this.form.defaultHosts = settings.defaultHosts;
    this.#view.output.lines = settings.outputLines;
  }

  /** Whether a button of the picture, by its selector, can be pressed; unseen, it is shown first. */
  canPress(selector: string): boolean {
    return !this.isVisible || this.#view.canPress(selector);
  }

  /** Press a button of the chosen cluster's picture; tells whether it could be. */
  press(selector: string): Promise<boolean> {
    return this.#view.press(selector);
  }

  /** Write what has changed; also called when another notebook has come to the front. */
  refresh(): void {
    const { feed, rows, chosen, chosenRow, isKnown } = this.clusters;
    this.#problem.hidden = !feed.problem;
    setText(this.#problem, feed.problem);
    this.writeRelation();
    this.#list.refresh();
    this.#none.hidden = rows.length > 0 || !isKnown;
    setText(this.#none, 'No cluster of yours is running. Start one here, or in a notebook with %dist_start.');
    this.#gone.hidden = chosen === null || chosenRow !== null || !isKnown;
    setText(this.#gone, `${chosen} is not running any more.`);
    this.#view.node.hidden = chosen === null;
    this.#attach.disabled = !this.actions.canAttach();
    this.#attach.title = this.attachHint();
    this.#view.refresh();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.clusters.changed.disconnect(this.refresh, this);
    document.removeEventListener('visibilitychange', this.#look);
    this.#view.dispose();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    this.#look();
  }

  protected override onAfterShow(): void {
    this.#look();
  }

  protected override onAfterHide(): void {
    this.#look();
  }

  protected override onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    this.node.querySelector<HTMLElement>('button, summary')?.focus();
  }

  private head(): HTMLElement {
    const start = button('Start…', () => this.toggleForm(), 'jdp-open-form');
    return element('div', { class: 'jdp-head' }, element('h2', {}, 'Clusters'), this.#attach, start);
  }

  /** Whose cluster is shown, and the pin that keeps it. */
  private writeRelation(): void {
    const { chosen, front, isKnown, isPinned } = this.clusters;
    const own = this.clusters.ownOf(front);
    const said = isPinned ? [`${chosen} is pinned.`] : [];
    if (front) said.push(relation(front.name, own));
    if (!isPinned && front && chosen !== null && chosen !== own?.row.name) said.push(`Shown is ${chosen}.`);
    this.#relation.hidden = !isKnown || (said.length === 0 && chosen === null);
    setText(this.#relationText, said.join(' '));
    this.#pin.hidden = chosen === null;
    setText(this.#pin, isPinned ? 'Unpin' : 'Pin');
    this.#pin.title = isPinned
      ? 'Show the cluster of the notebook in front again'
      : `Keep showing ${chosen}, whatever notebook is in front`;
  }

  private attachHint(): string {
    const { chosenRow } = this.clusters;
    if (chosenRow === null) return 'Choose a cluster first';
    if (this.#attach.disabled) return 'Open a notebook first';
    return `Insert a cell that attaches the notebook to ${chosenRow.name}`;
  }

  private toggleForm(): void {
    if (this.form.isOpen) this.form.close();
    else void this.form.open();
  }
}
