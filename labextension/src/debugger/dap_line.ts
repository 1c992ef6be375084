import { Signal, type ISignal } from '@lumino/signaling';
import type { IDebugger } from '@jupyterlab/debugger';

/** What JupyterLab reads of an answer, also of one that says no. */
const EMPTY = { breakpoints: [], modules: [], scopes: [], stackFrames: [], threads: [], variables: [] };
const BROKEN = 'the Jupyter server has ended the connection, or does not let this page debug ranks';

interface IMessage extends IDebugger.IReply {
  type: 'event' | 'request' | 'response';
  event: string;
  request_seq: number;
}

/** The connection to the debugger of one rank: requests with their answers, and events. */
export class DapLine {
  constructor(private readonly socket: WebSocket) {
    this.#opened = new Promise(resolve => (socket.onopen = () => resolve()));
    socket.onmessage = ({ data }) => this.take(JSON.parse(String(data)) as IMessage);
    socket.onclose = () => this.end();
  }

  get event(): ISignal<this, IDebugger.IEvent> {
    return this.#event;
  }

  /** It was closed by either side: why, as far as that was said. */
  get closed(): ISignal<this, string> {
    return this.#closed;
  }

  /** Ask the debugger; after the end the answer is no. */
  async request(command: string, args: object): Promise<IDebugger.IReply> {
    if (this.#isOver) return refusal(BROKEN);
    const seq = ++this.#last;
    const answer = new Promise<IDebugger.IReply>(resolve => this.#waiting.set(seq, resolve));
    void this.#opened.then(() => this.socket.send(JSON.stringify({ type: 'request', seq, command, arguments: args })));
    return answer;
  }

  close(): void {
    this.socket.close();
    this.end();
  }

  private take(message: IMessage): void {
    if (message.type === 'response') {
      this.#waiting.get(message.request_seq)?.({ ...message, body: { ...EMPTY, ...message.body } });
      this.#waiting.delete(message.request_seq);
    } else if (message.type === 'event') {
      if (message.event === 'output' && message.body.category === 'important') this.#reason = message.body.output.trim();
      this.#event.emit(message as unknown as IDebugger.IEvent);
    }
  }

  private end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const answer of this.#waiting.values()) answer(refusal(this.#reason || BROKEN));
    this.#waiting.clear();
    this.#closed.emit(this.#reason || BROKEN);
  }

  readonly #event = new Signal<this, IDebugger.IEvent>(this);
  readonly #closed = new Signal<this, string>(this);
  readonly #opened: Promise<void>;
  readonly #waiting = new Map<number, (answer: IDebugger.IReply) => void>();
  #last = 0;
  #isOver = false;
  #reason = '';
}

/** An answer that something could not be done. */
export function refusal(message: string): IDebugger.IReply {
  return { success: false, message, body: EMPTY };
}
