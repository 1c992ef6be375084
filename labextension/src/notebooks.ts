import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { Signal, type ISignal } from '@lumino/signaling';
import type { Widget } from '@lumino/widgets';

/** An open notebook, and the kernel that it has at the moment. */
export class OpenNotebook {
  constructor(
    readonly panel: Widget,
    readonly context: ISessionContext
  ) {}

  /** Its file's name. */
  get name(): string {
    return this.panel.title.label;
  }

  /** The server's id of its kernel; empty while it has none. A restart leaves it as it is. */
  get kernel(): string {
    return this.context.session?.kernel?.id ?? '';
  }

  get kernelChanged(): ISignal<ISessionContext, unknown> {
    return this.context.kernelChanged;
  }
}

/** The open notebooks of a page. One is in front until another one is, whatever else is used meanwhile. */
export class Notebooks {
  constructor(private readonly app: JupyterFrontEnd) {
    app.docRegistry.addWidgetExtension('Notebook', {
      createNew: (panel, context) => this.add(new OpenNotebook(panel, context.sessionContext))
    });
    app.shell.currentChanged?.connect(() => this.look());
  }

  /** Another one is in front, or has another kernel. */
  get changed(): ISignal<this, void> {
    return this.#changed;
  }

  get front(): OpenNotebook | null {
    return this.#front;
  }

  /** The notebook that a widget shows; null when it shows none. */
  of(panel: Widget | null): OpenNotebook | null {
    return this.#open.find(notebook => notebook.panel === panel) ?? null;
  }

  private add(notebook: OpenNotebook): void {
    this.#open.push(notebook);
    const tell = (): void => this.#changed.emit();
    notebook.kernelChanged.connect(tell);
    notebook.panel.title.changed.connect(tell);
    notebook.panel.disposed.connect(() => {
      this.#open.splice(this.#open.indexOf(notebook), 1);
      if (this.#front === notebook) this.bringToFront(null);
    });
  }

  private look(): void {
    const shown = this.of(this.app.shell.currentWidget);
    if (shown && shown !== this.#front) this.bringToFront(shown);
  }

  private bringToFront(notebook: OpenNotebook | null): void {
    this.#front = notebook;
    this.#changed.emit();
  }

  readonly #changed = new Signal<this, void>(this);
  readonly #open: OpenNotebook[] = [];
  #front: OpenNotebook | null = null;
}
