import { Signal, type ISignal } from '@lumino/signaling';
import type { IStateDB } from '@jupyterlab/statedb';

import { Feed } from './feed';
import { problemOf, type ClusterServer } from './server';
import { newId, type FeedMessage, type IClusterRow, type IReply, type IRequest } from './wire';

const CHOSEN_KEY = '@jupyter-dist/labextension:chosen-cluster';

/** The clusters of this user, which of them is looked at, and what can be asked of it. */
export class Clusters {
  readonly feed: Feed;

  constructor(
    readonly server: ClusterServer,
    private readonly state: IStateDB | null
  ) {
    this.feed = new Feed(server);
    this.feed.news.connect((_, message) => this.take(message));
    this.feed.stateChanged.connect(() => this.#changed.emit());
  }

  /** Remember which cluster was looked at before the page was loaded, then connect. */
  async open(): Promise<void> {
    const kept = await this.state?.fetch(CHOSEN_KEY);
    if (typeof kept === 'string' && this.#chosen === null) this.choose(kept);
    this.feed.connect();
  }

  /** The list, the choice or the connection has changed. */
  get changed(): ISignal<this, void> {
    return this.#changed;
  }

  /**
   * Whether someone can see the panel. Only then the chosen cluster is followed: that counts as
   * someone who is there, and keeps a cluster alive.
   */
  set isLookedAt(isLookedAt: boolean) {
    if (isLookedAt === this.#isLookedAt) return;
    this.#isLookedAt = isLookedAt;
    this.follow();
  }

  /** A message about the chosen cluster, or about a start. */
  get news(): ISignal<this, FeedMessage> {
    return this.#news;
  }

  /** As the server told last; empty until it has told. */
  get rows(): readonly IClusterRow[] {
    return this.#rows;
  }

  /** Whether the server has told anything since the page was loaded. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  get chosen(): string | null {
    return this.#chosen;
  }

  /** The row of the chosen cluster; null when it is not in the list. */
  get chosenRow(): IClusterRow | null {
    return this.#rows.find(row => row.name === this.#chosen) ?? null;
  }

  /** Look at a cluster; null looks at none. */
  choose(name: string | null): void {
    if (name === this.#chosen && !this.#isGone) return;
    this.#chosen = name;
    this.#rank = null;
    this.follow();
    void (name === null ? this.state?.remove(CHOSEN_KEY) : this.state?.save(CHOSEN_KEY, name));
    this.#changed.emit();
  }

  /** Follow the last lines of one rank of the chosen cluster. */
  followRank(rank: number | null): void {
    if (rank === this.#rank) return;
    this.#rank = rank;
    this.follow();
  }

  /**
   * Ask something of a cluster. Its replies come as news: by the feed, or out of the answer to the
   * request while there is no feed. A refusal of the server is a reply too.
   */
  async request(cluster: string, request: IRequest): Promise<IReply[]> {
    let replies: IReply[];
    this.#open.add(request.id);
    try {
      replies = await this.server.request(cluster, request);
    } catch (error) {
      replies = [{ kind: 'reply', id: request.id, ok: false, text: problemOf(error), is_final: true }];
    }
    if (this.#open.delete(request.id)) {
      for (const reply of replies) this.#news.emit({ ...reply, cluster });
    }
    return replies;
  }

  /** The same, for a wish that has no id yet. */
  ask(cluster: string, kind: string): Promise<IReply[]> {
    return this.request(cluster, { id: newId(), kind });
  }

  dispose(): void {
    this.feed.dispose();
    Signal.clearData(this);
  }

  private take(message: FeedMessage): void {
    if (message.kind === 'clusters') {
      this.takeRows(message.clusters);
      return;
    }
    if (message.kind === 'reply' && message.is_final) this.#open.delete(message.id);
    if (message.kind !== 'start' && message.cluster !== this.#chosen) return;
    if (message.kind === 'gone') this.#isGone = true;
    this.#news.emit(message);
  }

  private takeRows(rows: readonly IClusterRow[]): void {
    const before = this.chosenRow;
    this.#rows = rows;
    this.#isKnown = true;
    this.chooseTheOnlyOne();
    if (this.chosenRow && this.#isGone) this.follow(); // another one has the name now
    // Of what is not followed only the list says that it has ended.
    if (before && !this.chosenRow && !this.#isLookedAt) {
      this.take({ kind: 'gone', cluster: before.name, text: '' });
    }
    this.#changed.emit();
  }

  private follow(): void {
    this.#isGone = false;
    this.feed.follow(this.#isLookedAt ? this.#chosen : null, this.#rank);
  }

  private chooseTheOnlyOne(): void {
    const [first, second] = this.#rows;
    if (this.#chosen === null && first && !second) this.choose(first.name);
  }

  readonly #changed = new Signal<this, void>(this);
  readonly #news = new Signal<this, FeedMessage>(this);
  /** Requests whose last reply has not come, neither by the feed nor with the answer itself. */
  readonly #open = new Set<string>();
  #rows: readonly IClusterRow[] = [];
  #isKnown = false;
  #chosen: string | null = null;
  #rank: number | null = null;
  #isLookedAt = false;
  /** The chosen one has ended since it was followed last. */
  #isGone = false;
}
