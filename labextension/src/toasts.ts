import { Notification } from '@jupyterlab/apputils';

/** Until it is closed: by default JupyterLab only counts them beside its bell. */
const SHOWN = { autoClose: false } as const;

/** Show why something was not done. */
export function showError(text: string): void {
  Notification.error(text, SHOWN);
}

/** Show what is not as it was asked for. */
export function showWarning(text: string): void {
  Notification.warning(text, SHOWN);
}
