import { LabIcon } from '@jupyterlab/ui-components';

import clusters from '../style/clusters.svg';

/** Ranks that talk to each other. */
export const clustersIcon = new LabIcon({ name: 'jupyter-dist:clusters', svgstr: clusters });
