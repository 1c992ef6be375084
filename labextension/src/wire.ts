/** What the server extension says and takes; docs/reference/interface.md and jupyter_dist/server say the same. */

/** What a notebook has to do with a cluster. */
export interface IKernelRole {
  /** The server's id of its kernel. */
  kernel: string;
  /** `owned`: its kernel's process has ended, and no other notebook has taken its place. */
  role: 'own' | 'observe' | 'owned';
  /** Time of day, in seconds. */
  since_s?: number;
  /** Its cells run on every rank without saying so. */
  is_auto?: boolean;
}

/** One cluster in the list, with the numbers of ranks in each state that matters. */
export interface IClusterRow {
  name: string;
  /** Tells it from another one of the same name. */
  coordinator_pid: number;
  state: string;
  world_size: number;
  hosts: string[];
  busy: number;
  hung: number;
  lost: number;
  note: string;
  /** The running cell, as "In[3]"; empty when none runs. */
  cell: string;
  owner: string;
  kernels: IKernelRole[];
}

/** A notebook's cluster, and what it has to do with it. */
export interface IOwnCluster {
  row: IClusterRow;
  role: IKernelRole;
}

/** A file in which someone has saved what a cluster consists of. */
export interface ISavedSpec {
  name: string;
  path: string;
  hosts: string;
  /** Why it cannot be used; empty when it can. */
  problem: string;
}

/** The saved specs, and the folders in which the server looks for them. */
export interface ISavedSpecs {
  specs: ISavedSpec[];
  folders: string[];
}

/** What the panel reads of a topology; the renderer reads more. */
export interface ITopology {
  cluster: string;
  state: string;
  hosts: { name: string; engines: { rank: number; state: string }[]; gpus: object[] }[];
}

/** A wish of the view: interrupt, stacks, explain, heal, stop or rank. */
export interface IRequest {
  id: string;
  kind: string;
  ranks?: number[];
  rank?: number;
}

/** What is said to a request; the last one of a request is final. */
export interface IReply {
  kind: 'reply';
  id: string;
  ok: boolean;
  text: string;
  is_final: boolean;
  sections?: { title: string; text: string }[];
}

/** Output of the running or last cell of the followed cluster. */
export interface ICellOutput {
  label: string;
  is_running: boolean;
  html: string;
  text: string;
}

/** How far a start is. */
export interface IStartNews {
  id: string;
  text: string;
  ready_ranks: number;
  world_size: number;
  is_over: boolean;
  ok: boolean;
  cluster: string;
}

/** What a start needs: hosts, the path of a saved spec, or a number of ranks on this machine. */
export interface IStartWish {
  id: string;
  hosts?: string;
  spec?: string;
  count?: number;
  name?: string;
}

/** Everything that comes by the feed. */
export type FeedMessage =
  | { kind: 'clusters'; clusters: IClusterRow[] }
  | { kind: 'topology'; cluster: string; told: object }
  | ({ kind: 'cell'; cluster: string } & ICellOutput)
  | { kind: 'tail'; cluster: string; rank: number; text: string }
  | ({ kind: 'start' } & IStartNews)
  | (IReply & { cluster: string })
  | { kind: 'gone'; cluster: string; text: string };

let counter = 0;

/** An id that no other request of any page has. */
export function newId(): string {
  counter += 1;
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 10)}-${counter}`;
}
