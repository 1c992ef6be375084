import { Signal, type ISignal } from '@lumino/signaling';
import type { IStateDB } from '@jupyterlab/statedb';

import { Feed } from './feed';
import { ServerProblem, type ClusterServer } from './server';
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
    this.feed.stateChanged.connect(() => this._changed.emit());
  }

  /** Remember which cluster was looked at before the page was loaded, then connect. */
  async open(): Promise<void> {
    const kept = await this.state?.fetch(CHOSEN_KEY);
    if (typeof kept === 'string' && this._chosen === null) this.choose(kept);
    this.feed.connect();
  }

  /** The list, the choice or the connection has changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** A message about the chosen cluster, or about a start. */
  get news(): ISignal<this, FeedMessage> {
    return this._news;
  }

  /** As the server told last; empty until it has told. */
  get rows(): readonly IClusterRow[] {
    return this._rows;
  }

  /** Whether the server has told anything since the page was loaded. */
  get isKnown(): boolean {
    return this._isKnown;
  }

  get chosen(): string | null {
    return this._chosen;
  }

  /** The row of the chosen cluster; null when it is not in the list. */
  get chosenRow(): IClusterRow | null {
    return this._rows.find(row => row.name === this._chosen) ?? null;
  }

  /** Look at a cluster; null looks at none. */
  choose(name: string | null): void {
    if (name === this._chosen) return;
    this._chosen = name;
    this._rank = null;
    this.feed.follow(name, null);
    void (name === null ? this.state?.remove(CHOSEN_KEY) : this.state?.save(CHOSEN_KEY, name));
    this._changed.emit();
  }

  /** Follow the last lines of one rank of the chosen cluster. */
  followRank(rank: number | null): void {
    if (rank === this._rank) return;
    this._rank = rank;
    this.feed.follow(this._chosen, rank);
  }

  /**
   * Ask something of a cluster. Its replies come as news: by the feed, or out of the answer to the
   * request while there is no feed. A refusal of the server is a reply too.
   */
  async request(cluster: string, request: IRequest): Promise<IReply[]> {
    let replies: IReply[];
    try {
      replies = await this.server.request(cluster, request);
    } catch (error) {
      if (!(error instanceof ServerProblem)) throw error;
      const { message } = error;
      replies = [{ kind: 'reply', id: request.id, ok: false, text: message, is_final: true }];
    }
    if (!this._answered.delete(request.id)) {
      for (const reply of replies) this._news.emit({ ...reply, cluster });
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
      this._rows = message.clusters;
      this._isKnown = true;
      this.chooseTheOnlyOne();
      this._changed.emit();
      return;
    }
    if (message.kind === 'reply' && message.is_final) this._answered.add(message.id);
    if (message.kind === 'start' || message.cluster === this._chosen) this._news.emit(message);
  }

  private chooseTheOnlyOne(): void {
    const [first, second] = this._rows;
    if (this._chosen === null && first && !second) this.choose(first.name);
  }

  private readonly _changed = new Signal<this, void>(this);
  private readonly _news = new Signal<this, FeedMessage>(this);
  /** Requests whose last reply the feed has brought before the answer itself. */
  private readonly _answered = new Set<string>();
  private _rows: readonly IClusterRow[] = [];
  private _isKnown = false;
  private _chosen: string | null = null;
  private _rank: number | null = null;
}
