import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Debugger, IDebugger, IDebuggerHandler } from '@jupyterlab/debugger';

import type { Notebooks, OpenNotebook } from '../notebooks';
import type { ClusterServer } from '../server';
import { CellFiles } from './cell_files';
import { RankSession, type IKept } from './rank_session';

const SHOW_PANEL = 'debugger:show-panel';
const NO_DEBUGGER = 'This page has no debugger: JupyterLab comes with one, where it is not switched off.';
const NO_NOTEBOOK = 'Open the notebook whose cells are to be debugged first; it needs a kernel.';

/** Has JupyterLab's own debugger, its panel and its gutters, drive a rank instead of a kernel. */
export class RankDebugger {
  /** @throws Error on a page without a debugger */
  static async load(
    app: JupyterFrontEnd,
    server: ClusterServer,
    notebooks: Notebooks,
    onEnd: (reason: string) => void
  ): Promise<RankDebugger> {
    const service = await app.resolveOptionalService(IDebugger);
    const handler = await app.resolveOptionalService(IDebuggerHandler);
    if (!service || !handler) throw new Error(NO_DEBUGGER);
    return new RankDebugger(app, server, notebooks, service, handler, onEnd);
  }

  private constructor(
    private readonly app: JupyterFrontEnd,
    private readonly server: ClusterServer,
    private readonly notebooks: Notebooks,
    private readonly service: IDebugger,
    private readonly handler: IDebugger.IHandler,
    private readonly onEnd: (reason: string) => void
  ) {
    // By the button in the notebook, or by "Terminate", which starts again what is there then: later.
    service.stopped.connect(() => void window.setTimeout(() => this.giveBack('')));
    // JupyterLab writes the name of the notebook that comes to the front.
    service.model.titleChanged.connect(() => {
      if (this.#session?.isStarted) service.model.title = this.#title;
    });
  }

  /** Debug a rank, in place of the kernel or another rank. @throws Error with what is in the way */
  async debug(cluster: string, rank: number): Promise<void> {
    const left = this.leave();
    const choice = this.#choice;
    await left;
    if (choice !== this.#choice) return; // there is another one since
    const notebook = this.notebooks.front;
    const connection = notebook?.context.session ?? null;
    if (!notebook || !connection?.kernel) throw new Error(NO_NOTEBOOK);
    const socket = new this.server.settings.WebSocket(this.server.debuggerUrl(cluster, rank));
    const cells = (): string[] => sourcesOf(this.notebooks.front ?? notebook);
    const session = new RankSession(socket, connection, this.service.config, cells, this.#kept);
    this.#begun = session;
    await session.start();
    await this.stopKernels();
    if (choice !== this.#choice) return; // and the session is closed
    this.#begun = null;
    this.#session = session;
    session.ended.connect((_, reason) => void this.end(reason));
    this.service.session = session;
    this.service.model.title = this.#title = `rank ${rank} of ${cluster}`;
    await this.handler.updateContext(notebook.panel, notebook.context);
    if (this.app.commands.hasCommand(SHOW_PANEL)) await this.app.commands.execute(SHOW_PANEL);
  }

  /** Have the rank go on, and the debugger belong to the kernel again. */
  async leave(): Promise<void> {
    const begun = this.#begun;
    this.#begun = null;
    this.#choice += 1;
    await begun?.stop();
    if (this.#session) await this.end('');
  }

  /** Stop the kernel's debugger. At the end of that JupyterLab clears the panel: a later choice waits for it, too. */
  private async stopKernels(): Promise<void> {
    if (this.service.isStarted) this.#stopping = this.service.stop().finally(() => (this.#stopping = null));
    await this.#stopping;
  }

  private async end(reason: string): Promise<void> {
    if (this.service.session === this.#session) await this.service.stop();
    this.giveBack(reason);
  }

  private giveBack(reason: string): void {
    const session = this.#session;
    if (session === null || session.isStarted) return;
    this.#session = null;
    if (this.service.session === session) {
      const { connection } = session;
      this.service.session = connection
        ? (new Debugger.Session({ connection, config: this.service.config }) as unknown as IDebugger.ISession)
        : null;
    }
    this.onEnd(reason);
  }

  readonly #kept: IKept = { files: new CellFiles(), breakpoints: new Map() };
  #session: RankSession | null = null;
  #title = '';
  /** The number of the last choice; an earlier one is not carried on. */
  #choice = 0;
  /** Its rank has not answered yet, or the kernel's debugger has not stopped yet. */
  #begun: RankSession | null = null;
  #stopping: Promise<void> | null = null;
}

/** The texts of a notebook's cells. */
function sourcesOf({ panel }: OpenNotebook): string[] {
  const { model } = (panel as unknown as INotebookPanel).content;
  return [...(model?.sharedModel.cells ?? [])].filter(cell => cell.cell_type === 'code').map(cell => cell.getSource());
}

/** Of @jupyterlab/notebook. */
interface INotebookPanel {
  content: { model: { sharedModel: { cells: { cell_type: string; getSource(): string }[] } } | null };
}
