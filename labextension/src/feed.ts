import { Signal, type ISignal } from '@lumino/signaling';

import { ServerProblem, type ClusterServer } from './server';
import type { FeedMessage } from './wire';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/**
 * Live news of the server by WebSocket, connected again by itself for as long as it lives.
 *
 * It never goes through a kernel. While there is no connection, `problem` says why in a sentence.
 */
export class Feed {
  constructor(private readonly server: ClusterServer) {}

  /** Each message of the server. */
  get news(): ISignal<this, FeedMessage> {
    return this._news;
  }

  /** `problem` or `isConnected` has changed. */
  get stateChanged(): ISignal<this, void> {
    return this._stateChanged;
  }

  /** Why there is no news; empty when there is, or nothing is known yet. */
  get problem(): string {
    return this._problem;
  }

  get isConnected(): boolean {
    return this._isConnected;
  }

  /** Connect, and stay so until `dispose`. */
  connect(): void {
    if (this._isDisposed || this._socket) return;
    window.clearTimeout(this._timer);
    const socket = new this.server.settings.WebSocket(this.server.feedUrl);
    this._socket = socket;
    socket.onopen = () => {
      this._pauseMs = FIRST_PAUSE_MS;
      this.enter(true, '');
      this.sendFollow();
    };
    socket.onmessage = event => {
      this._news.emit(JSON.parse(String(event.data)) as FeedMessage);
    };
    socket.onclose = () => {
      if (this._socket !== socket) return;
      this._socket = null;
      void this.explainAndRetry();
    };
  }

  /** Ask for everything of one cluster, and for the last lines of one of its ranks. */
  follow(cluster: string | null, rank: number | null): void {
    this._followed = { cluster, rank };
    this.sendFollow();
  }

  dispose(): void {
    this._isDisposed = true;
    window.clearTimeout(this._timer);
    const socket = this._socket;
    this._socket = null;
    socket?.close();
    Signal.clearData(this);
  }

  private sendFollow(): void {
    if (!this._isConnected || !this._socket) return;
    this._socket.send(JSON.stringify({ kind: 'follow', ...this._followed }));
  }

  /** A browser does not say why a WebSocket failed; an ordinary request does. */
  private async explainAndRetry(): Promise<void> {
    const pauseMs = this._pauseMs;
    this._pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
    let why = 'The live connection to the Jupyter server is broken.';
    try {
      await this.server.clusters();
    } catch (error) {
      if (!(error instanceof ServerProblem)) throw error;
      why = error.message;
    }
    if (this._isDisposed) return;
    this.enter(false, `${why} Trying again every few seconds; what is shown is what was last known.`);
    this._timer = window.setTimeout(() => this.connect(), pauseMs);
  }

  private enter(isConnected: boolean, problem: string): void {
    if (this._isConnected === isConnected && this._problem === problem) return;
    this._isConnected = isConnected;
    this._problem = problem;
    this._stateChanged.emit();
  }

  private readonly _news = new Signal<this, FeedMessage>(this);
  private readonly _stateChanged = new Signal<this, void>(this);
  private _socket: WebSocket | null = null;
  private _followed: { cluster: string | null; rank: number | null } = { cluster: null, rank: null };
  private _isConnected = false;
  private _isDisposed = false;
  private _problem = '';
  private _pauseMs = FIRST_PAUSE_MS;
  private _timer = 0;
}
