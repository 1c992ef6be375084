import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, showDialog, type ICommandPalette } from '@jupyterlab/apputils';

import type { Clusters } from './clusters';
import type { ClustersPanel } from './panel';
import { showError } from './toasts';

const CATEGORY = 'Clusters';
const INSERT_CELL = 'notebook:insert-cell-below';
const WRITE_INTO_CELL = 'notebook:replace-selection';

/** The names of our commands. */
export const CommandIds = {
  open: 'jupyter-dist:open-panel',
  start: 'jupyter-dist:start',
  attach: 'jupyter-dist:attach',
  interrupt: 'jupyter-dist:interrupt',
  stacks: 'jupyter-dist:stacks',
  heal: 'jupyter-dist:heal',
  stop: 'jupyter-dist:stop'
} as const;

interface IOrder {
  id: string;
  label: string;
  /** The button of the picture that does it. */
  button: string;
  needsLoss?: boolean;
}

const ORDERS: IOrder[] = [
  { id: CommandIds.interrupt, label: 'Interrupt the Cell on', button: '.jd-interrupt' },
  { id: CommandIds.stacks, label: 'Show the Stacks of', button: '.jd-stacks' },
  { id: CommandIds.heal, label: 'Heal', button: '.jd-heal', needsLoss: true }
];

/** Whether a cell can be inserted into the notebook that is in front. */
export function canAttach(app: JupyterFrontEnd, clusters: Clusters): boolean {
  const { commands } = app;
  return clusters.chosenRow !== null && commands.hasCommand(INSERT_CELL) && commands.isEnabled(INSERT_CELL);
}

/** Insert the cell that attaches the notebook in front to the chosen cluster; running it is the user's. */
export async function attach(app: JupyterFrontEnd, clusters: Clusters): Promise<void> {
  if (!canAttach(app, clusters)) return;
  await app.commands.execute(INSERT_CELL);
  const text = `%load_ext jupyter_dist\n%dist_attach ${clusters.chosen}`;
  await app.commands.execute(WRITE_INTO_CELL, { text });
}

/** Make our commands, and put them into the palette where there is one. */
export function addCommands(
  app: JupyterFrontEnd,
  clusters: Clusters,
  panel: ClustersPanel,
  palette: ICommandPalette | null
): void {
  const { commands } = app;
  const show = (): void => app.shell.activateById(panel.id);
  const chosenName = (): string => clusters.chosen ?? 'the Cluster';
  commands.addCommand(CommandIds.open, { label: 'Show Clusters', execute: show });
  commands.addCommand(CommandIds.start, {
    label: 'Start a Cluster…',
    isEnabled: () => clusters.feed.isConnected,
    execute: () => {
      show();
      return panel.form.open();
    }
  });
  commands.addCommand(CommandIds.attach, {
    label: () => `Attach the Notebook to ${chosenName()}`,
    isEnabled: () => canAttach(app, clusters),
    execute: () => attach(app, clusters)
  });
  for (const order of ORDERS) {
    commands.addCommand(order.id, {
      label: () => `${order.label} ${chosenName()}`,
      isEnabled: () => {
        const row = clusters.chosenRow;
        return row !== null && (!order.needsLoss || row.lost > 0) && panel.canPress(order.button);
      },
      execute: async () => {
        show();
        if (await panel.press(order.button)) return;
        showError(`${chosenName()} was asked nothing: it does not tell how it is. Try again in a moment.`);
      }
    });
  }
  commands.addCommand(CommandIds.stop, {
    label: () => `Stop ${chosenName()}…`,
    isEnabled: () => clusters.chosenRow !== null,
    execute: () => stop(clusters)
  });
  clusters.changed.connect(() => Object.values(CommandIds).forEach(id => commands.notifyCommandChanged(id)));
  Object.values(CommandIds).forEach(command => palette?.addItem({ command, category: CATEGORY }));
}

/** Stop the chosen cluster, once the user has said so twice. */
async function stop(clusters: Clusters): Promise<void> {
  const row = clusters.chosenRow;
  if (row === null) return;
  const answer = await showDialog({
    title: `Stop ${row.name}?`,
    body: `The ${row.world_size} ranks of ${row.name} end, and what they hold in memory is gone.`,
    buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: `Stop ${row.name}` })]
  });
  if (!answer.button.accept) return;
  const replies = await clusters.ask(row.name, 'stop');
  const last = replies[replies.length - 1];
  if (last && !last.ok) showError(`${row.name} was not stopped: ${last.text}`);
}
