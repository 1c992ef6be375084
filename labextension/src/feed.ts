import { Signal, type ISignal } from '@lumino/signaling';

import { problemOf, type ClusterServer } from './server';
import type { FeedMessage } from './wire';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Live news of the server by WebSocket, connected again on its own for as long as it lives.
 *
 * It never goes through a kernel. While there is no connection, `problem` says why in a sentence.
 */
export class Feed {
  constructor(private readonly server: ClusterServer) {}

  /** Each message of the server. */
  get news(): ISignal<this, FeedMessage> {
    return this.#news;
  }

  /** `problem` or `isConnected` has changed. */
  get stateChanged(): ISignal<this, void> {
    return this.#stateChanged;
  }

  /** Why there is no news; empty when there is, or nothing is known yet. */
  get problem(): string {
    return this.#problem;
  }

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Connect, and stay so until `dispose`. */
  connect(): void {
    if (this.#isDisposed || this.#socket) return;
    window.clearTimeout(this.#timer);
    const socket = new this.server.settings.WebSocket(this.server.feedUrl);
    this.#socket = socket;
    socket.onopen = () => {
      this.#pauseMs = FIRST_PAUSE_MS;
      this.enter(true, '');
      this.sendFollow();
    };
    socket.onmessage = event => {
      this.#news.emit(JSON.parse(String(event.data)) as FeedMessage);
    };
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      void this.explainAndRetry();
    };
  }

  /** Ask for everything of one cluster, and for the last lines of one of its ranks. */
  follow(cluster: string | null, rank: number | null): void {
    this.#followed = { cluster, rank };
    this.sendFollow();
  }

  /** Ask for the whole state of what is followed: something of it was missed. */
  askForWhole(): void {
    this.send({ ...this.#followed, whole: true });
  }

  dispose(): void {
    this.#isDisposed = true;
    window.clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
    Signal.clearData(this);
  }

  private sendFollow(): void {
    this.send(this.#followed);
  }

  private send(followed: object): void {
    if (!this.#isConnected || !this.#socket) return;
    this.#socket.send(JSON.stringify({ kind: 'follow', ...followed }));
  }

  /** A browser does not say why a WebSocket failed; an ordinary request does. */
  private async explainAndRetry(): Promise<void> {
    const pauseMs = this.#pauseMs;
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
    let why = 'The live connection to the Jupyter server is broken.';
    try {
      await this.server.clusters();
    } catch (error) {
      why = problemOf(error);
    }
    if (this.#isDisposed) return;
    this.enter(false, `${why} Trying again every few seconds; what is shown is what was last known.`);
    this.#timer = window.setTimeout(() => this.connect(), pauseMs);
  }

  private enter(isConnected: boolean, problem: string): void {
    if (this.#isConnected === isConnected && this.#problem === problem) return;
    this.#isConnected = isConnected;
    this.#problem = problem;
    this.#stateChanged.emit();
  }

  readonly #news = new Signal<this, FeedMessage>(this);
  readonly #stateChanged = new Signal<this, void>(this);
  #socket: WebSocket | null = null;
  #followed: { cluster: string | null; rank: number | null } = { cluster: null, rank: null };
  #isConnected = false;
  #isDisposed = false;
  #problem = '';
  #pauseMs = FIRST_PAUSE_MS;
  #timer = 0;
}
