/**
 * What is used of @jupyterlab/debugger. JupyterLab has it and lends it to extensions; to install it
 * for its types alone would bring 180 other packages.
 */
declare module '@jupyterlab/debugger' {
  import type { ISessionContext } from '@jupyterlab/apputils';
  import type { Session } from '@jupyterlab/services';
  import type { Token } from '@lumino/coreutils';
  import type { IObservableDisposable } from '@lumino/disposable';
  import type { ISignal } from '@lumino/signaling';
  import type { Widget } from '@lumino/widgets';

  export interface IDebugger {
    readonly config: IDebugger.IConfig;
    readonly isStarted: boolean;
    readonly model: { title: string; readonly titleChanged: ISignal<unknown, string> };
    readonly stopped: ISignal<IDebugger, void>;
    session: IDebugger.ISession | null;
    stop(): Promise<void>;
  }
  export const IDebugger: Token<IDebugger>;
  export const IDebuggerHandler: Token<IDebugger.IHandler>;

  export namespace IDebugger {
    interface IConfig {
      /** Name a cell by its text. @throws Error while nothing was told of this kernel */
      getCodeId(code: string, kernel: string): string;
    }
    interface IHandler {
      updateContext(widget: Widget, context: ISessionContext): Promise<void>;
    }
    interface IEvent {
      type: 'event';
      event: string;
      // Of the Debug Adapter Protocol, as all bodies and arguments.
      body: any;
    }
    interface IReply {
      success: boolean;
      message?: string;
      body: any;
    }
    interface IFilter {
      filter: string;
      label: string;
    }
    interface ISession extends IObservableDisposable {
      connection: Session.ISessionConnection | null;
      readonly capabilities: object | undefined;
      readonly isStarted: boolean;
      exceptionPaths: string[];
      exceptionBreakpointFilters: IFilter[] | undefined;
      currentExceptionFilters: string[];
      readonly eventMessage: ISignal<ISession, IEvent>;
      isPausingOnException(filter?: string): boolean;
      restoreState(): Promise<IReply>;
      sendRequest(command: string, args: any): Promise<IReply>;
      start(): Promise<void>;
      stop(): Promise<void>;
    }
  }

  export namespace Debugger {
    class Session {
      constructor(options: { connection: Session.ISessionConnection; config: IDebugger.IConfig });
    }
  }
}
