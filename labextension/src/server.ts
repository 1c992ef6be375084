import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import type { IClusterRow, IReply, IRequest, ISavedSpecs, IStartWish } from './wire';

const ROUTE = 'jupyter-dist';

const MISSING =
  'The Jupyter server has no clusters to show: its part of jupyter-dist is missing or switched off. ' +
  'In the environment of the server run "pip install jupyter-dist" and ' +
  '"jupyter server extension enable jupyter_dist.server", then restart it.';
const TOO_OLD =
  'The Jupyter server answers in a way that this panel does not know: its jupyter-dist has another version. ' +
  'Run "pip install --upgrade jupyter-dist" in the environment of the server, restart it and reload this page.';
const NOT_LOGGED_IN = 'The Jupyter server does not let this page in any more. Reload the page and log in again.';

/** The server refused or could not be asked; the message says why, and what to do. */
export class ServerProblem extends Error {
  /** @param status the HTTP status; 0 when there was no answer at all */
  constructor(
    message: string,
    readonly status: number
  ) {
    super(message);
  }
}

/** What a ServerProblem says; anything else is an error of ours and thrown again. */
export function problemOf(error: unknown): string {
  if (error instanceof ServerProblem) return error.message;
  throw error;
}

/** The routes of the server extension; Jupyter's own authentication goes along with each call. */
export class ClusterServer {
  constructor(readonly settings: ServerConnection.ISettings) {}

  /** The address of the feed. */
  get feedUrl(): string {
    return this.socketUrl('feed');
  }

  /** The address by which a rank is debugged. */
  debuggerUrl(cluster: string, rank: number): string {
    return this.socketUrl(`clusters/${encodeURIComponent(cluster)}/ranks/${rank}/debugger`);
  }

  private socketUrl(path: string): string {
    const url = URLExt.join(this.settings.wsUrl, ROUTE, path);
    const token = this.settings.appendToken ? this.settings.token : '';
    return token ? `${url}?token=${encodeURIComponent(token)}` : url;
  }

  /** All clusters of this user. */
  async clusters(): Promise<IClusterRow[]> {
    const answer = await this.call<{ clusters: IClusterRow[] }>('clusters');
    if (!Array.isArray(answer.clusters)) throw new ServerProblem(TOO_OLD, 200);
    return answer.clusters;
  }

  /** The specs that someone has saved. */
  specs(): Promise<ISavedSpecs> {
    return this.call<ISavedSpecs>('specs');
  }

  /** Start a cluster; settles when it is there or has failed. How far it is comes by the feed. */
  async start(wish: IStartWish): Promise<IClusterRow> {
    return (await this.call<{ cluster: IClusterRow }>('clusters', wish)).cluster;
  }

  /** Ask something of a cluster; settles with all replies once the last has come. */
  async request(cluster: string, request: IRequest): Promise<IReply[]> {
    const path = `clusters/${encodeURIComponent(cluster)}/requests`;
    return (await this.call<{ replies: IReply[] }>(path, request)).replies;
  }

  private async call<T>(path: string, body?: object): Promise<T> {
    const url = URLExt.join(this.settings.baseUrl, ROUTE, path);
    const init: RequestInit = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    let response: Response;
    let text: string;
    try {
      response = await ServerConnection.makeRequest(url, init, this.settings);
      text = await response.text(); // a connection can break in the middle of an answer
    } catch {
      throw new ServerProblem('The Jupyter server does not answer.', 0);
    }
    const data = parsed(text);
    if (response.ok) {
      if (data === null) throw new ServerProblem(TOO_OLD, response.status);
      return data as T;
    }
    throw new ServerProblem(refusal(response, data, path), response.status);
  }
}

function parsed(text: string): object | null {
  try {
    const data: unknown = JSON.parse(text);
    return typeof data === 'object' ? data : null;
  } catch {
    return null;
  }
}

/** Why the server refused. A 404 that is not our own means that nobody there knows the route. */
function refusal(response: Response, data: object | null, path: string): string {
  if (response.status === 403 || response.status === 401) return NOT_LOGGED_IN;
  if (response.status === 404 && (path === 'clusters' || path === 'specs')) return MISSING;
  const message = (data as { message?: unknown } | null)?.message;
  if (typeof message === 'string' && message) return message;
  return `The Jupyter server answered ${response.status} ${response.statusText} to ${path}; its log says more.`;
}
