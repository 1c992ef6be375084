import { Widget } from '@lumino/widgets';

import type { Clusters } from './clusters';
import { element, setText } from './dom';
import { clustersIcon } from './icon';
import type { Notebooks } from './notebooks';
import { inShort, relation } from './words';

/** "demo · In[3] runs" in a notebook's toolbar, and whether %dist_auto is on; a click shows the cluster. */
export class ToolbarItem extends Widget {
  readonly #button = element('button', { type: 'button', class: 'jdp-toolbar-button' });
  readonly #text = element('span', { class: 'jdp-toolbar-text' });
  readonly #auto = element('span', { class: 'jdp-auto', hidden: true }, 'auto');

  /** @param panel the notebook in whose toolbar it is */
  constructor(
    private readonly clusters: Clusters,
    private readonly notebooks: Notebooks,
    private readonly panel: Widget,
    show: () => void
  ) {
    super();
    this.addClass('jdp-toolbar');
    this.#button.append(clustersIcon.element({ tag: 'span', stylesheet: 'toolbarButton' }), this.#text, this.#auto);
    this.#button.addEventListener('click', () => {
      const own = this.own;
      if (own) clusters.choose(own.row.name);
      show();
    });
    this.node.append(this.#button);
    clusters.changed.connect(this.refresh, this);
    this.refresh();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.clusters.changed.disconnect(this.refresh, this);
    super.dispose();
  }

  private get own(): ReturnType<Clusters['ownOf']> {
    return this.clusters.ownOf(this.notebooks.of(this.panel));
  }

  private refresh(): void {
    const own = this.own;
    const { problem } = this.clusters.feed;
    const said = own ? inShort(own) : '';
    setText(this.#text, said && problem ? `${said} · no news` : said);
    this.#auto.hidden = !own?.role.is_auto;
    this.node.toggleAttribute('data-alarm', Boolean(own && (own.row.hung > 0 || own.row.lost > 0)));
    const words = problem || relation(this.notebooks.of(this.panel)?.name ?? 'This notebook', own);
    this.#button.title = `${words} Click to show ${own?.row.name ?? 'the clusters'}.`;
    this.#button.setAttribute('aria-label', [said || 'No cluster', own?.role.is_auto ? '%dist_auto is on' : ''].filter(Boolean).join(', '));
  }
}
