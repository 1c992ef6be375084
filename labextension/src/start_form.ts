import type { Clusters } from './clusters';
import { button, element, field, setText } from './dom';
import { problemOf } from './server';
import { newId, type ISavedSpec, type IStartNews, type IStartWish } from './wire';

type Place = 'count' | 'hosts' | 'spec';

/** The form that starts a cluster, with how far the start is and, in full, why it failed. */
export class StartForm {
  readonly node = element('form', { class: 'jdp-start', 'aria-label': 'start a cluster', hidden: true });
  readonly #count = element('input', { class: 'jp-mod-styled', type: 'number', min: 1, max: 4096, value: 4 });
  readonly #hosts = element('input', {
    class: 'jp-mod-styled', type: 'text', placeholder: 'nodeA:8,nodeB:8', spellcheck: 'false', autocomplete: 'off'
  });
  readonly #spec = element('select', { class: 'jp-mod-styled' });
  readonly #specHint = element('small', { class: 'jdp-spec-hint' });
  readonly #name = element('input', {
    class: 'jp-mod-styled', type: 'text', placeholder: 'chosen for you', spellcheck: 'false', autocomplete: 'off'
  });
  readonly #submit = element(
    'button', { type: 'submit', class: 'jp-mod-styled jp-mod-accept jdp-button' }, 'Start'
  );
  readonly #progress = element('div', { class: 'jdp-progress', role: 'status', hidden: true });
  readonly #bar = element('progress', { 'aria-label': 'ranks that are ready', hidden: true });
  readonly #failure = element('pre', { class: 'jdp-failure', role: 'alert', hidden: true, tabindex: 0 });
  readonly #places: Record<Place, { radio: HTMLInputElement; field: HTMLElement }>;
  #specs: ISavedSpec[] = [];
  #pending = '';

  constructor(private readonly clusters: Clusters) {
    const specField = field('Spec', this.#spec);
    specField.append(this.#specHint);
    this.#places = {
      count: { radio: this.radio('count', true), field: field('Ranks', this.#count) },
      hosts: {
        radio: this.radio('hosts', false),
        field: field('Hosts', this.#hosts, 'each with its number of ranks, as for %dist_start --hosts')
      },
      spec: { radio: this.radio('spec', false), field: specField }
    };
    this.node.append(...this.parts());
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      void this.submit();
    });
    this.#spec.addEventListener('change', () => this.writeSpecHint());
    clusters.news.connect((_, message) => message.kind === 'start' && this.take(message));
    this.place = 'count';
  }

  get isOpen(): boolean {
    return !this.node.hidden;
  }

  /** Show the form and ask the server which specs there are; the first field has the focus. */
  async open(): Promise<void> {
    this.node.hidden = false;
    this.#places[this.place].radio.focus();
    try {
      const { specs, folders } = await this.clusters.server.specs();
      this.offer(specs, folders);
    } catch (error) {
      this.fail(problemOf(error));
    }
  }

  close(): void {
    this.node.hidden = true;
  }

  /** Hosts that the settings suggest. */
  set defaultHosts(hosts: string) {
    this.#hosts.defaultValue = hosts;
    if (hosts && !this.#pending) this.place = 'hosts';
  }


  private parts(): HTMLElement[] {
    const label = (place: Place, text: string): HTMLElement =>
      element('label', {}, this.#places[place].radio, text);
    const { count, hosts, spec } = this.#places;
    return [
      element(
        'fieldset', {}, element('legend', {}, 'Where'),
        label('count', 'this machine'), label('hosts', 'hosts'), label('spec', 'a saved spec')
      ),
      count.field,
      hosts.field,
      spec.field,
      field('Name (if you like)', this.#name),
      element('div', { class: 'jdp-buttons' }, this.#submit, button('Close', () => this.close())),
      this.#progress,
      this.#bar,
      this.#failure
    ];
  }

  private radio(place: Place, isChecked: boolean): HTMLInputElement {
    const radio = element('input', { type: 'radio', name: 'jdp-place', value: place, checked: isChecked });
    radio.addEventListener('change', () => (this.place = place));
    return radio;
  }

  private get place(): Place {
    const { hosts, spec } = this.#places;
    return hosts.radio.checked ? 'hosts' : spec.radio.checked ? 'spec' : 'count';
  }

  private set place(place: Place) {
    for (const [name, { radio, field: shown }] of Object.entries(this.#places)) {
      radio.checked = name === place;
      shown.hidden = name !== place;
    }
  }

  private offer(specs: ISavedSpec[], folders: string[]): void {
    const before = this.#spec.value;
    this.#specs = specs;
    this.#spec.replaceChildren(
      ...specs.map(({ name, path, problem }) =>
        element('option', { value: path, disabled: Boolean(problem) }, problem ? `${name} (unusable)` : name)
      )
    );
    if (specs.some(spec => spec.path === before)) this.#spec.value = before;
    this.#spec.disabled = specs.length === 0;
    const where = folders.length ? ` Spec files (*.toml) are looked for in ${folders.join(' and ')}.` : '';
    this.#specHint.dataset['where'] = specs.length ? '' : `There is none.${where}`;
    this.writeSpecHint();
  }

  private writeSpecHint(): void {
    const spec = this.#specs.find(each => each.path === this.#spec.value);
    const said = spec ? spec.problem || spec.hosts : (this.#specHint.dataset['where'] ?? '');
    const unusable = this.#specs.filter(each => each.problem && each !== spec);
    setText(this.#specHint, [said, ...unusable.map(each => `${each.name}: ${each.problem}`)].join('\n').trim());
  }

  private wish(): IStartWish {
    const wish: IStartWish = { id: newId() };
    const place = this.place;
    if (place === 'count') wish.count = this.#count.valueAsNumber;
    if (place === 'hosts') wish.hosts = this.#hosts.value.trim();
    if (place === 'spec') wish.spec = this.#spec.value;
    const name = this.#name.value.trim();
    if (name) wish.name = name;
    return wish;
  }

  private async submit(): Promise<void> {
    const wish = this.wish();
    if (wish.hosts === '') return this.fail('Name at least one host, for instance nodeA:8,nodeB:8.');
    if (wish.spec === '') return this.fail('Choose a saved spec, or another place to start at.');
    this.#pending = wish.id;
    this.showProgress('asked the server to start…', 0, 0);
    try {
      const row = await this.clusters.server.start(wish);
      this.end(wish.id, row.name, '');
    } catch (error) {
      this.end(wish.id, '', problemOf(error));
    }
  }

  /** News of a start; every open page hears of it, and only the form that has asked shows it. */
  private take({ id, text, is_over, ok, cluster, ready_ranks, world_size }: IStartNews): void {
    if (id !== this.#pending) return;
    if (is_over) this.end(id, cluster, ok ? '' : text);
    else this.showProgress(text, ready_ranks, world_size);
  }

  /** The start is over; the feed and the answer both say so, and the first of them counts. */
  private end(id: string, cluster: string, failure: string): void {
    if (id !== this.#pending) return;
    this.#pending = '';
    this.#progress.hidden = true;
    this.#bar.hidden = true;
    this.#submit.disabled = false;
    if (failure) return this.fail(failure);
    this.clusters.choose(cluster);
    this.close();
  }

  private showProgress(text: string, ready: number, of: number): void {
    this.#failure.hidden = true;
    this.#progress.hidden = false;
    setText(this.#progress, text);
    this.#bar.hidden = of === 0;
    this.#bar.max = Math.max(1, of);
    this.#bar.value = ready;
    this.#submit.disabled = true;
  }

  private fail(text: string): void {
    this.node.hidden = false;
    this.#failure.hidden = false;
    setText(this.#failure, text);
  }
}
