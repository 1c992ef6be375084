import type { Clusters } from './clusters';
import { button, element, field, setText } from './dom';
import { ServerProblem } from './server';
import { newId, type ISavedSpec, type IStartNews, type IStartWish } from './wire';

type Place = 'count' | 'hosts' | 'spec';

/** The form that starts a cluster, with how far the start is and, in full, why it failed. */
export class StartForm {
  readonly node = element('form', { class: 'jdp-start', 'aria-label': 'start a cluster', hidden: true });
  private readonly _count = element('input', { class: 'jp-mod-styled', type: 'number', min: 1, max: 4096, value: 4 });
  private readonly _hosts = element('input', {
    class: 'jp-mod-styled', type: 'text', placeholder: 'nodeA:8,nodeB:8', spellcheck: 'false', autocomplete: 'off'
  });
  private readonly _spec = element('select', { class: 'jp-mod-styled' });
  private readonly _specHint = element('small', { class: 'jdp-spec-hint' });
  private readonly _name = element('input', {
    class: 'jp-mod-styled', type: 'text', placeholder: 'chosen for you', spellcheck: 'false', autocomplete: 'off'
  });
  private readonly _submit = element(
    'button', { type: 'submit', class: 'jp-mod-styled jp-mod-accept jdp-button' }, 'Start'
  );
  private readonly _progress = element('div', { class: 'jdp-progress', role: 'status', hidden: true });
  private readonly _bar = element('progress', { 'aria-label': 'ranks that are ready', hidden: true });
  private readonly _failure = element('pre', { class: 'jdp-failure', role: 'alert', hidden: true, tabindex: 0 });
  private readonly _places: Record<Place, { radio: HTMLInputElement; field: HTMLElement }>;
  private _specs: ISavedSpec[] = [];
  private _pending = '';

  constructor(private readonly clusters: Clusters) {
    const specField = field('Spec', this._spec);
    specField.append(this._specHint);
    this._places = {
      count: { radio: this.radio('count', true), field: field('Ranks', this._count) },
      hosts: {
        radio: this.radio('hosts', false),
        field: field('Hosts', this._hosts, 'each with its number of ranks, as for %dist_start --hosts')
      },
      spec: { radio: this.radio('spec', false), field: specField }
    };
    this.node.append(...this.parts());
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      void this.submit();
    });
    this._spec.addEventListener('change', () => this.writeSpecHint());
    this.place = 'count';
  }

  get isOpen(): boolean {
    return !this.node.hidden;
  }

  /** Show the form and ask the server which specs there are; the first field has the focus. */
  async open(): Promise<void> {
    this.node.hidden = false;
    this._places[this.place].radio.focus();
    try {
      const { specs, folders } = await this.clusters.server.specs();
      this.offer(specs, folders);
    } catch (error) {
      if (!(error instanceof ServerProblem)) throw error;
      this.fail(error.message);
    }
  }

  close(): void {
    this.node.hidden = true;
  }

  /** Hosts that the settings suggest. */
  set defaultHosts(hosts: string) {
    this._hosts.defaultValue = hosts;
    if (hosts && !this._pending) this.place = 'hosts';
  }

  /** News of a start; also of one that was asked for before this page was loaded. */
  take(news: IStartNews): void {
    if (this._pending && news.id !== this._pending) return;
    if (news.is_over) {
      this.settle(news.ok ? '' : news.text);
      return;
    }
    this.node.hidden = false;
    this.showProgress(news.text, news.ready_ranks, news.world_size);
  }

  private parts(): HTMLElement[] {
    const label = (place: Place, text: string): HTMLElement =>
      element('label', {}, this._places[place].radio, text);
    const { count, hosts, spec } = this._places;
    return [
      element(
        'fieldset', {}, element('legend', {}, 'Where'),
        label('count', 'this machine'), label('hosts', 'hosts'), label('spec', 'a saved spec')
      ),
      count.field,
      hosts.field,
      spec.field,
      field('Name (if you like)', this._name),
      element('div', { class: 'jdp-buttons' }, this._submit, button('Close', () => this.close())),
      this._progress,
      this._bar,
      this._failure
    ];
  }

  private radio(place: Place, isChecked: boolean): HTMLInputElement {
    const radio = element('input', { type: 'radio', name: 'jdp-place', value: place, checked: isChecked });
    radio.addEventListener('change', () => (this.place = place));
    return radio;
  }

  private get place(): Place {
    const { hosts, spec } = this._places;
    return hosts.radio.checked ? 'hosts' : spec.radio.checked ? 'spec' : 'count';
  }

  private set place(place: Place) {
    for (const [name, { radio, field: shown }] of Object.entries(this._places)) {
      radio.checked = name === place;
      shown.hidden = name !== place;
    }
  }

  private offer(specs: ISavedSpec[], folders: string[]): void {
    const before = this._spec.value;
    this._specs = specs;
    this._spec.replaceChildren(
      ...specs.map(({ name, path, problem }) =>
        element('option', { value: path, disabled: Boolean(problem) }, problem ? `${name} (unusable)` : name)
      )
    );
    if (specs.some(spec => spec.path === before)) this._spec.value = before;
    this._spec.disabled = specs.length === 0;
    const where = folders.length ? ` Spec files (*.toml) are looked for in ${folders.join(' and ')}.` : '';
    this._specHint.dataset['where'] = specs.length ? '' : `There is none.${where}`;
    this.writeSpecHint();
  }

  private writeSpecHint(): void {
    const spec = this._specs.find(each => each.path === this._spec.value);
    const said = spec ? spec.problem || spec.hosts : (this._specHint.dataset['where'] ?? '');
    const unusable = this._specs.filter(each => each.problem && each !== spec);
    setText(this._specHint, [said, ...unusable.map(each => `${each.name}: ${each.problem}`)].join('\n').trim());
  }

  private wish(): IStartWish {
    const wish: IStartWish = { id: newId() };
    const place = this.place;
    if (place === 'count') wish.count = this._count.valueAsNumber;
    if (place === 'hosts') wish.hosts = this._hosts.value.trim();
    if (place === 'spec') wish.spec = this._spec.value;
    const name = this._name.value.trim();
    if (name) wish.name = name;
    return wish;
  }

  private async submit(): Promise<void> {
    const wish = this.wish();
    if (wish.hosts === '') return this.fail('Name at least one host, for instance nodeA:8,nodeB:8.');
    if (wish.spec === '') return this.fail('Choose a saved spec, or another place to start at.');
    this._pending = wish.id;
    this.showProgress('asked the server to start…', 0, 0);
    try {
      const row = await this.clusters.server.start(wish);
      this.settle('');
      this.clusters.choose(row.name);
      this.close();
    } catch (error) {
      if (!(error instanceof ServerProblem)) throw error;
      this.settle(error.message);
    }
  }

  private showProgress(text: string, ready: number, of: number): void {
    this._failure.hidden = true;
    this._progress.hidden = false;
    setText(this._progress, text);
    this._bar.hidden = of === 0;
    this._bar.max = Math.max(1, of);
    this._bar.value = ready;
    this._submit.disabled = true;
  }

  private settle(failure: string): void {
    this._pending = '';
    this._progress.hidden = true;
    this._bar.hidden = true;
    this._submit.disabled = false;
    if (failure) this.fail(failure);
  }

  private fail(text: string): void {
    this.node.hidden = false;
    this._failure.hidden = false;
    setText(this._failure, text);
  }
}
