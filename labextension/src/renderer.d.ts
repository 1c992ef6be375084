/** The renderer that the widget in notebooks has too: plain modules without types of their own. */
declare module '*/views/topology/static/view.js' {
  export interface IView {
    update(topology: object): void;
    reply(reply: object): void;
    destroy(): void;
  }
  export function createView(
    parent: HTMLElement,
    send: (request: { id: string; kind: string; ranks?: number[]; rank?: number }) => void,
    options?: { source?: string }
  ): IView;
}

declare module '*/views/topology/static/changes.js' {
  /** The state of one cluster, by all that was told of it in order; null: the whole must be told. */
  export function createReceiver(): { take(told: object): object | null };
}

declare module '*/views/topology/static/words.js' {
  /** Word and glyph (a path in a 12 × 12 box) of each state. */
  export const STATES: Record<string, { word: string; glyph: string }>;
}

declare module '*.svg' {
  const text: string;
  export default text;
}

declare module '*/views/topology/static/history.js' {
  export interface ISamples {
    values: Float64Array;
    span_s: number;
    limit: number;
    unit: 'bytes' | 'percent';
  }
  export type Quantity = 'rss' | 'gpu_memory' | 'utilisation';
  export function createHistory(): {
    take(topology: object): void;
    samples(rank: number | null, what: Quantity): ISamples;
  };
  export function curve(
    parent: Element,
    samples: ISamples,
    label: string
  ): { node: HTMLElement; set(samples: ISamples): void };
}
