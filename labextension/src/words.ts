import type { IClusterRow, IOwnCluster } from './wire';

/** "1 rank", "8 ranks". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** What must be seen of ranks: how many are in which bad state, in the words of the picture. */
export function warnings(row: { hung: number; lost: number }): { state: string; text: string }[] {
  const found = [];
  if (row.hung > 0) found.push({ state: 'hung', text: `${row.hung} hung?` });
  if (row.lost > 0) found.push({ state: 'lost', text: `${row.lost} lost` });
  return found;
}

/** What a cluster is doing, in a few words. */
export function activity(row: IClusterRow): string {
  if (row.state === 'silent') return 'does not answer';
  if (row.state !== 'ready') return row.state;
  if (row.cell) return `${row.cell} runs`;
  return row.busy > 0 ? `${row.busy} busy` : 'idle';
}

/** "demo · In[3] runs", "demo · 1 lost": a cluster in the toolbar of its notebook. */
export function inShort({ row, role }: IOwnCluster): string {
  const marks = warnings(row).map(({ text }) => text);
  const parts = [row.name, ...(marks.length ? marks : [activity(row)])];
  if (role.role === 'observe') parts.push('observed');
  if (role.role === 'owned') parts.push('not attached');
  return parts.join(' · ');
}

/** What a notebook has to do with its cluster, as a sentence. */
export function relation(notebook: string, own: IOwnCluster | null): string {
  if (own === null) return `${notebook} has no cluster.`;
  const { row, role } = own;
  if (role.role === 'observe') return `${notebook} observes ${row.name}.`;
  if (role.role === 'owned') return `The kernel of ${notebook} that ran cells on ${row.name} has ended.`;
  return `${notebook} runs ${role.is_auto ? 'all its cells' : 'cells'} on ${row.name}${role.is_auto ? ' (%dist_auto)' : ''}.`;
}

/** "8 ranks · 1 hung?", or "2 clusters · 12 ranks" when there are several. */
export function summary(rows: readonly IClusterRow[]): string {
  const sum = (of: (row: IClusterRow) => number): number => rows.reduce((n, row) => n + of(row), 0);
  const parts = [counted(sum(row => row.world_size), 'rank')];
  if (rows.length > 1) parts.unshift(counted(rows.length, 'cluster'));
  const [hung, lost] = [sum(row => row.hung), sum(row => row.lost)];
  if (hung > 0) parts.push(`${hung} hung?`);
  if (lost > 0) parts.push(`${lost} lost`);
  return parts.join(' · ');
}
