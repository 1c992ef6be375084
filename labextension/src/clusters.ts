import { Signal, type ISignal } from '@lumino/signaling';
import type { IStateDB } from '@jupyterlab/statedb';

import { Feed } from './feed';
import { problemOf, type ClusterServer } from './server';
import type { Notebooks, OpenNotebook } from './notebooks';
import { newId, type FeedMessage, type IClusterRow, type IOwnCluster, type IReply, type IRequest } from './wire';

const PINNED_KEY = '@jupyter-dist/labextension:pinned-cluster';

const ROLES = ['owned', 'observe', 'own'];

/**
 * The clusters of this user, which of them is looked at, and what can be asked of it.
 *
 * That is the cluster of the notebook in front, unless another one is chosen or pinned.
 */
export class Clusters {
  readonly feed: Feed;

  constructor(
    readonly server: ClusterServer,
    private readonly notebooks: Notebooks,
    private readonly state: IStateDB | null
  ) {
    this.feed = new Feed(server);
    this.feed.news.connect((_, message) => this.take(message));
    this.feed.stateChanged.connect(() => this.#changed.emit());
    notebooks.changed.connect(() => {
      this.followNotebook();
      this.#changed.emit();
    });
  }

  /** Remember which cluster was pinned before the page was loaded, then connect. */
  async open(): Promise<void> {
    const kept = await this.state?.fetch(PINNED_KEY);
    if (typeof kept === 'string' && this.#chosen === null) {
      this.#isPinned = true;
      this.choose(kept);
    }
    this.feed.connect();
  }

  /** The list, the choice, the connection or the notebook in front has changed. */
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

  /** The notebook in front, if there is one. */
  get front(): OpenNotebook | null {
    return this.notebooks.front;
  }

  /** The cluster of a notebook; of several the one that it has taken up last. */
  ownOf(notebook: OpenNotebook | null): IOwnCluster | null {
    const kernel = notebook?.kernel;
    if (!kernel) return null;
    const found = this.#rows.flatMap(row =>
      row.kernels.filter(role => role.kernel === kernel).map(role => ({ row, role }))
    );
    const order = ({ role }: IOwnCluster): number[] => [ROLES.indexOf(role.role), role.since_s ?? 0];
    const isLater = ([a = 0, b = 0]: number[], [c = 0, d = 0]: number[]): boolean => a > c || (a === c && b > d);
    return found.reduce<IOwnCluster | null>(
      (best, each) => (best === null || isLater(order(each), order(best)) ? each : best),
      null
    );
  }

  /** Whether the choice stays what it is when another notebook comes to the front. */
  get isPinned(): boolean {
    return this.#isPinned;
  }

  set isPinned(isPinned: boolean) {
    this.#isPinned = isPinned;
    this.keepPin();
    if (!isPinned) this.followNotebook(true);
    this.#changed.emit();
  }

  /** Look at a cluster; null looks at none. */
  choose(name: string | null): void {
    if (name === this.#chosen && !this.#isGone) return;
    this.#chosen = name;
    this.#rank = null;
    this.follow();
    this.keepPin();
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
    // The list may have told of another one of this name before that.
    if (message.kind === 'gone' && this.chosenRow && this.chosenPid !== this.#followedPid) this.follow();
  }

  private takeRows(rows: readonly IClusterRow[]): void {
    const before = this.chosenRow;
    this.#rows = rows;
    this.#isKnown = true;
    this.followNotebook();
    if (this.chosenRow && this.#isGone) this.follow(); // another one has the name now
    // Of what is not followed only the list says that it has ended.
    const isOther = before !== null && before.coordinator_pid !== this.chosenPid;
    if (isOther && before.name === this.#chosen && !this.#isLookedAt) {
      this.take({ kind: 'gone', cluster: before.name, text: '' });
    }
    this.#changed.emit();
  }

  private follow(): void {
    this.#isGone = false;
    this.#followedPid = this.chosenPid;
    this.feed.follow(this.#isLookedAt ? this.#chosen : null, this.#rank);
  }

  private get chosenPid(): number | null {
    return this.chosenRow?.coordinator_pid ?? null;
  }

  /**
   * Look at the cluster of the notebook in front, when that is another notebook or has another
   * cluster. What has just ended, or was left behind, stays in sight; without a notebook, the only one.
   */
  private followNotebook(isAgain = false): void {
    if (this.#isPinned || !this.#isKnown) return;
    const front = this.front;
    const own = this.ownOf(front)?.row.name ?? null;
    const isOther = front !== this.#followedNotebook || isAgain;
    const isNews = isOther || (own !== null && own !== this.#own);
    [this.#followedNotebook, this.#own] = [front, own ?? (isOther ? null : this.#own)];
    if (front !== null && isNews) this.choose(own);
    const [first, second] = this.#rows;
    if (front === null && this.#chosen === null && first && !second) this.choose(first.name);
  }

  private keepPin(): void {
    const isKept = this.#isPinned && this.#chosen !== null;
    void (isKept ? this.state?.save(PINNED_KEY, this.#chosen) : this.state?.remove(PINNED_KEY));
  }

  readonly #changed = new Signal<this, void>(this);
  readonly #news = new Signal<this, FeedMessage>(this);
  /** Requests whose last reply has not come, neither by the feed nor with the answer itself. */
  readonly #open = new Set<string>();
  #rows: readonly IClusterRow[] = [];
  #isKnown = false;
  #chosen: string | null = null;
  #isPinned = false;
  /** The notebook whose cluster was looked for last, and the one that it had, or has had. */
  #followedNotebook: OpenNotebook | null = null;
  #own: string | null = null;
  #rank: number | null = null;
  #isLookedAt = false;
  /** The coordinator that the list named when it was followed last; null when it named none. */
  #followedPid: number | null = null;
  /** The chosen one has ended since it was followed last. */
  #isGone = false;
}
