/** The file of a cell on a rank, after its number: a digest of its text. */
const FILE = /(?:^|\/)In_\d+(_[0-9a-f]{8}\.py)$/;

/**
 * Cells of the notebook and their files on ranks, for all sessions of a page.
 *
 * JupyterLab names a cell by its text, with a hash of its own; a rank names the file of each run
 * by number and text. The server knows which text ranks get, and by it the file of all runs, `In_*_….py`.
 */
export class CellFiles {
  /** Get to know a cell by its name and text; `dump` asks the server for its file, once. */
  async add(cell: string, code: string, dump: (code: string) => Promise<string | undefined>): Promise<void> {
    if (this.#files.has(cell)) return;
    const file = await dump(code);
    if (file === undefined) return; // there is no connection any more
    this.#files.set(cell, file);
    this.#codes.set(cell, code);
  }

  /** The file on ranks of the cell with this name; undefined: the name is a file's own. */
  fileOf(cell: string): string | undefined {
    return this.#files.get(cell);
  }

  /** The text of the cell with this name. */
  codeOf(cell: string): string | undefined {
    return this.#codes.get(cell);
  }

  /**
   * JupyterLab's name for a file of a rank, where one of these cells has the text that ran: a cell that
   * was edited since is shown as it was, from the rank.
   */
  nameOf(path: string, cells: readonly string[]): string {
    const digest = FILE.exec(path)?.[1];
    return cells.find(cell => digest !== undefined && this.fileOf(cell) === `In_*${digest}`) ?? path;
  }

  readonly #files = new Map<string, string>();
  readonly #codes = new Map<string, string>();
}

/** Whether a path is the file of a cell on its rank. */
export function isCellFile(path: string): boolean {
  return FILE.test(path);
}
