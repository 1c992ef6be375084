import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { IStatusBar } from '@jupyterlab/statusbar';

import { Clusters } from './clusters';
import { addCommands, attach, canAttach } from './commands';
import { Debugging } from './debugging';
import { Notebooks } from './notebooks';
import { ClustersPanel, type IPanelSettings } from './panel';
import { ClusterServer } from './server';
import { StatusItem } from './status_item';
import { ToolbarItem } from './toolbar_item';

const ID = '@jupyter-dist/labextension:plugin';
/** Its place is in schema/plugin.json. */
const TOOLBAR_ITEM = 'jupyter-dist:cluster';
const DEFAULTS: IPanelSettings = { showStatusItem: true, defaultHosts: '', outputLines: 20 };

/** The panel "Clusters", its items in the status bar and in notebooks, and its commands. */
const plugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Clusters of jupyter-dist: see, start and steer them while the kernel is busy.',
  autoStart: true,
  requires: [IRenderMimeRegistry],
  optional: [ICommandPalette, ILayoutRestorer, ISettingRegistry, IStateDB, IStatusBar, IToolbarWidgetRegistry],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    settings: ISettingRegistry | null,
    state: IStateDB | null,
    statusBar: IStatusBar | null,
    toolbars: IToolbarWidgetRegistry | null
  ) => {
    const notebooks = new Notebooks(app);
    const clusters = new Clusters(new ClusterServer(app.serviceManager.serverSettings), notebooks, state);
    const actions = {
      attach: () => void attach(app, clusters),
      canAttach: () => canAttach(app, clusters)
    };
    const panel = new ClustersPanel(clusters, actions, rendermime, new Debugging(app, clusters.server, notebooks));
    const show = (): void => app.shell.activateById(panel.id);
    const statusItem = new StatusItem(clusters, show);
    toolbars?.addFactory('Notebook', TOOLBAR_ITEM, notebook => new ToolbarItem(clusters, notebooks, notebook, show));
    addCommands(app, clusters, panel, palette);
    app.shell.add(panel, 'left', { rank: 450, type: 'Clusters' });
    app.commands.commandChanged.connect((_, { id }) => {
      if (id === undefined || id === 'notebook:insert-cell-below') panel.refresh();
    });
    app.shell.currentChanged?.connect(() => panel.refresh());
    restorer?.add(panel, panel.id);
    statusBar?.registerStatusItem(ID, {
      item: statusItem,
      align: 'left',
      rank: 20,
      isActive: () => statusItem.isActive,
      activeStateChanged: statusItem.activeStateChanged
    });
    void applySettings(settings, read => {
      panel.configure(read);
      statusItem.isWanted = read.showStatusItem;
    });
    void clusters.open();
  }
};

/** Call `apply` with what the user has set, now and after each change. */
async function applySettings(
  registry: ISettingRegistry | null,
  apply: (settings: IPanelSettings) => void
): Promise<void> {
  if (!registry) return apply(DEFAULTS);
  const settings = await registry.load(ID);
  const read = (): void => apply({ ...DEFAULTS, ...(settings.composite as Partial<IPanelSettings>) });
  settings.changed.connect(read);
  read();
}

export default plugin;
