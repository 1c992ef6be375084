import type { IDebugger } from '@jupyterlab/debugger';
import type { Session } from '@jupyterlab/services';
import { Signal, type ISignal } from '@lumino/signaling';

import { showWarning } from '../toasts';
import { type CellFiles, isCellFile } from './cell_files';
import { DapLine, refusal } from './dap_line';

/**
 * Names of cells as JupyterLab makes them for ipykernel: hash and seed are the same, so that
 * breakpoints are found again, and by the prefix it sees that a source is a cell.
 */
const NAMES = {
  hashMethod: 'Murmur2',
  hashSeed: 0xc70f6907,
  tmpFilePrefix: '/jupyter-dist/ipykernel_of_ranks/',
  tmpFileSuffix: '.py'
};

/** What outlives a session. */
export interface IKept {
  files: CellFiles;
  /** By the path that JupyterLab knows: the name of a cell, or a file on ranks. */
  breakpoints: Map<string, { line: number }[]>;
}

interface IFrame {
  source?: { path?: string };
}

/** A session of JupyterLab's debugger with one rank, over the Jupyter server instead of the kernel. */
export class RankSession implements IDebugger.ISession {
  capabilities: object | undefined;
  isStarted = false;
  isDisposed = false;
  exceptionPaths: string[] = [];
  exceptionBreakpointFilters: IDebugger.IFilter[] | undefined;
  currentExceptionFilters: string[] = [];

  /**
   * @param connection of the notebook, by which JupyterLab knows whose cells are debugged
   * @param cells gives the texts of that notebook's cells
   * @param kept its breakpoints are set when JupyterLab restores them, and kept up to date
   */
  constructor(
    socket: WebSocket,
    public connection: Session.ISessionConnection | null,
    private readonly config: IDebugger.IConfig,
    private readonly cells: () => string[],
    private readonly kept: IKept
  ) {
    this.#line = new DapLine(socket);
    this.#line.event.connect((_, event) => this.take(event));
    this.#line.closed.connect((_, reason) => this.end(reason));
  }

  get eventMessage(): ISignal<this, IDebugger.IEvent> {
    return this.#eventMessage;
  }

  /** It is over, without anyone here having asked for that: why. */
  get ended(): ISignal<this, string> {
    return this.#ended;
  }

  get disposed(): ISignal<this, void> {
    return this.#disposed;
  }

  /** Attach to the rank. @throws Error with what is in the way */
  async start(): Promise<void> {
    if (this.#isLeaving) return; // JupyterLab's "Terminate" starts again what it has stopped
    const greeting = await this.#line.request('initialize', { clientID: 'jupyterlab', adapterID: 'debugpy', pathFormat: 'path' });
    this.capabilities = greeting.body;
    this.exceptionBreakpointFilters = greeting.body.exceptionBreakpointFilters;
    const attached = await this.#line.request('attach', { justMyCode: false });
    if (!attached.success) throw new Error(attached.message);
    await this.#line.request('configurationDone', {});
    this.isStarted = true;
  }

  /** Leave the rank, which goes on. */
  async stop(): Promise<void> {
    this.#isLeaving = true;
    this.#line.close();
  }

  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    void this.stop();
    this.#disposed.emit();
    Signal.clearData(this);
  }

  isPausingOnException(filter?: string): boolean {
    const { currentExceptionFilters: filters } = this;
    return filter ? filters.includes(filter) : filters.length > 0;
  }

  restoreState(): Promise<IDebugger.IReply> {
    return this.sendRequest('debugInfo', {});
  }

  /** Answer what JupyterLab asks of kernels only, and pass the rest on to the rank. */
  async sendRequest(command: string, args: any): Promise<IDebugger.IReply> {
    switch (command) {
      case 'debugInfo':
        return accepted(this.info());
      case 'dumpCell':
        return accepted({ sourcePath: await this.nameCell(args.code) });
      case 'setBreakpoints':
        return this.setBreakpoints(args);
      case 'stackTrace':
        return this.stackTrace(args);
      case 'source':
        return this.source(args);
      case 'continue': // JupyterLab has forgotten by then which thread it is
        return this.#line.request(command, { ...args, threadId: this.#stoppedThread ?? args.threadId });
      case 'inspectVariables': // of a rank that is not stopped; nothing can be asked of it
        return accepted({ variables: [] });
      case 'configurationDone':
        return accepted({});
      case 'richInspectVariables':
      case 'copyToGlobals':
        return refusal(`${command} is not for ranks`);
      default:
        return this.#line.request(command, args);
    }
  }

  /** JupyterLab's name for the cell with this text, whose file is known from now on. */
  private async nameCell(code: string): Promise<string> {
    const cell = this.config.getCodeId(code, this.connection?.kernel?.name ?? '');
    await this.kept.files.add(cell, code, async () => (await this.#line.request('dumpCell', { code })).body.sourcePath);
    return cell;
  }

  private info(): object {
    const set = [...this.kept.breakpoints].map(([source, breakpoints]) => ({ source, breakpoints }));
    const stoppedThreads = this.#stoppedThread === null ? [] : [this.#stoppedThread];
    return {
      ...NAMES, isStarted: this.isStarted, breakpoints: set, stoppedThreads,
      richRendering: false, copyToGlobals: false, exceptionPaths: []
    };
  }

  private async setBreakpoints(args: any): Promise<IDebugger.IReply> {
    const path: string = args.source.path;
    const { breakpoints: kept, files } = this.kept;
    const file = files.fileOf(path);
    const reply = await this.#line.request('setBreakpoints', { ...args, source: { path: file ?? path } });
    const breakpoints = reply.body.breakpoints.map((each: object) => ({ ...each, source: { path } }));
    if (!reply.success) return reply; // they stay as they were
    if (breakpoints.length > 0) kept.set(path, breakpoints);
    else kept.delete(path);
    return { ...reply, body: { breakpoints } };
  }

  /** Frames of the user's code, each in the cell of the notebook that it is of. */
  private async stackTrace(args: object): Promise<IDebugger.IReply> {
    const reply = await this.#line.request('stackTrace', args);
    const frames: IFrame[] = reply.body.stackFrames;
    const outermost = frames.map(({ source }) => isCellFile(source?.path ?? '')).lastIndexOf(true);
    const cells = await Promise.all(this.cells().map(code => this.nameCell(code)));
    const shown = (outermost < 0 ? frames : frames.slice(0, outermost + 1)).map(frame => ({
      ...frame,
      source: { ...frame.source, path: this.kept.files.nameOf(frame.source?.path ?? '', cells) }
    }));
    return { ...reply, body: { stackFrames: shown } };
  }

  private async source(args: any): Promise<IDebugger.IReply> {
    const content = this.kept.files.codeOf(args.source?.path);
    if (content !== undefined) return accepted({ content, mimeType: 'text/x-python' });
    const reply = await this.#line.request('source', { ...args, source: { path: args.source?.path }, sourceReference: 0 });
    if (!reply.success) throw new Error(reply.message);
    return reply;
  }

  private take(event: IDebugger.IEvent): void {
    if (event.event === 'stopped') this.#stoppedThread = event.body.threadId;
    if (event.event === 'continued') this.#stoppedThread = null;
    const isImportant = event.event === 'output' && event.body.category === 'important';
    if (isImportant && !this.isStarted) showWarning(event.body.output); // why that takes time
    if (event.event !== 'terminated') this.#eventMessage.emit(event);
  }

  private end(reason: string): void {
    const wasStarted = this.isStarted;
    this.isStarted = false;
    this.#stoppedThread = null;
    this.#eventMessage.emit({ type: 'event', event: 'terminated', body: {} });
    if (wasStarted && !this.#isLeaving) this.#ended.emit(reason);
  }

  readonly #line: DapLine;
  readonly #eventMessage = new Signal<this, IDebugger.IEvent>(this);
  readonly #ended = new Signal<this, string>(this);
  readonly #disposed = new Signal<this, void>(this);
  #stoppedThread: number | null = null;
  #isLeaving = false;
}

function accepted(body: object): IDebugger.IReply {
  return { success: true, body };
}
