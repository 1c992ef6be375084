import { Signal, type ISignal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import type { Clusters } from './clusters';
import { element, setText } from './dom';
import { clustersIcon } from './icon';
import { summary } from './words';

/** "8 ranks · 1 hung?" in the status bar; a click opens the panel. Not there without a cluster. */
export class StatusItem extends Widget {
  readonly #button = element('button', { type: 'button', class: 'jdp-status-button' });
  readonly #text = element('span', {});
  readonly #activeStateChanged = new Signal<this, void>(this);
  #isWanted = true;

  constructor(
    private readonly clusters: Clusters,
    onClick: () => void
  ) {
    super();
    this.addClass('jdp-status');
    this.addClass('jp-mod-highlighted');
    this.#button.append(clustersIcon.element({ tag: 'span', stylesheet: 'statusBar' }), this.#text);
    this.#button.addEventListener('click', onClick);
    this.node.append(this.#button);
    clusters.changed.connect(this.refresh, this);
    this.refresh();
  }

  /** Whether there is something to show, and the user wants to see it. */
  get isActive(): boolean {
    return this.#isWanted && this.clusters.rows.length > 0;
  }

  get activeStateChanged(): ISignal<this, void> {
    return this.#activeStateChanged;
  }

  set isWanted(isWanted: boolean) {
    this.#isWanted = isWanted;
    this.#activeStateChanged.emit();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.clusters.changed.disconnect(this.refresh, this);
    super.dispose();
  }

  private refresh(): void {
    const { rows, feed } = this.clusters;
    const said = summary(rows);
    setText(this.#text, feed.problem ? `${said} · no news` : said);
    const { problem } = feed;
    this.#button.title = problem || 'Show the clusters';
    const isAlarming = rows.some(row => row.hung > 0 || row.lost > 0);
    this.node.toggleAttribute('data-alarm', isAlarming);
    this.#activeStateChanged.emit();
  }
}
