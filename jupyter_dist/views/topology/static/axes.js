/**
 * Ranks in a grid: one of the axes that are named over them across, all others down, and frames around
 * what a host has of it. Pure.
 *
 * @typedef {{host: Host, x: number, y: number, width: number, height: number}} Frame
 * @typedef {{x: number, y: number, words: string, title: string, host: string, isEnd: boolean}} Label a name of the grid;
 *   `title`: all of it; `host`: that it is of; isEnd: it ends at x
 * @typedef {{x: number, y: number, gap: number, seats: Seat[], plain: Route | null, routes: Route[], frames: Frame[],
 *   labels: Label[]}} Grid
 */

import { coordinatesOf, writeCoordinates } from "./facts.js";
import { DENSE, ROOMY, SMALLEST_SCALE, seatsOf } from "./plan.js";
import { plainRoute } from "./routes.js";

const LABEL_LETTER = 6.7;
const LABEL_LINE = 12;
/** Around the seats in a frame, between seats, and between what different hosts have. */
const SPACES = { roomy: [4, 14, 6], dense: [2, 5, 2] };

/** The rows of the grid: seats by their coordinate along the axis across. @param {Topology} state */
function gridRows({ axes, hosts }, across) {
  /** @type {{words: string, seats: Seat[]}[]} */
  const rows = [];
  hosts.forEach((host, at) => {
    for (const seat of seatsOf(host)) {
      if (seat.rank === null) continue;
      const along = coordinatesOf(axes, seat.rank);
      const row = along.reduce((sum, one, axis) => (axis === across ? sum : sum * axes[1][axis] + one), 0);
      rows[row] ??= { words: writeCoordinates(axes, along, across), seats: [] };
      rows[row].seats[along[across]] = { ...seat, at, where: writeCoordinates(axes, along) };
    }
  });
  return rows.filter(Boolean);
}

/** Rows as lines of so many columns; where a row goes on in another line, that says which these are. */
function gridLines(rows, count, columns) {
  return rows.flatMap(({ words, seats }) =>
    Array.from({ length: Math.ceil(count / columns) }, (_, i) => {
      const from = i * columns;
      const part = seats.slice(from, from + columns);
      const isBegin = columns === count || (words && !i);
      return { words: isBegin ? words : `${from}-${from + part.length - 1}`, seats: part };
    }).filter((line) => line.seats.some(Boolean))
  );
}

/** As many columns as there is room for; rather those that fill each line, unless these are few. */
function columnsIn(/** @type {number} */ room, /** @type {number} */ count) {
  const most = Math.max(1, Math.min(count, Math.floor(room)));
  let columns = most;
  while (count % columns) columns -= 1;
  return 2 * columns < most ? most : columns;
}

/** Seats side by side on one host. @param {Seat[]} seats of a line, with holes */
function runsOf(seats) {
  /** @type {{at: number, from: number, to: number}[]} */
  const runs = [];
  seats.forEach(({ at }, column) => {
    const last = runs.at(-1);
    if (last?.at === at) last.to = column;
    else runs.push({ at, from: column, to: column });
  });
  return runs;
}

/**
 * Place ranks by their axes.
 * @param {Topology} state with axes
 * @param {number} width
 * @param {boolean} dense
 * @param {string} name of the axis that goes across
 * @returns {Plan | null} null: there is no room for large seats
 */
export function planAxes(state, width, dense, name) {
  const [names, sizes] = state.axes;
  const { hosts } = state;
  const across = names.indexOf(name);
  const count = sizes[across];
  const size = dense ? DENSE : ROOMY;
  const [pad, gap, between] = dense ? SPACES.dense : SPACES.roomy;
  const step = size.width + gap;
  const rows = gridRows(state, across);
  const longest = Math.max(...rows.map((row) => row.words.length), ...hosts.map((host) => host.name.length));
  const edge = Math.min(longest * LABEL_LETTER, Math.max(width * 0.18, width - count * step - 20)) + 1;
  const left = edge + 6 + pad;
  const needed = left + count * step - gap + pad + 1;
  if (!dense && needed * SMALLEST_SCALE > width) return null;
  const columns = dense ? columnsIn((width - left - pad - 1 + gap) / step, count) : count;

  const [seats, frames, labels] = [[], [], []];
  const label = (x, y, title, room = edge, host = "") => {
    const most = Math.max(2, Math.floor(room / LABEL_LETTER));
    // Names of hosts differ in their end.
    const words = title.length > most ? `…${title.slice(1 - most)}` : title;
    labels.push({ x, y, words, title, host, isEnd: x === edge });
  };
  if (dense) label(edge, LABEL_LINE - 2, name);
  for (let i = 0; i < count && columns === count; i += 1) {
    label(left + i * step + 1, LABEL_LINE - 2, dense ? `${i}` : `${name}=${i}`, step);
  }
  let y = LABEL_LINE + 2 * pad;
  let known = "";
  /** @type {Frame[]} */
  let open = [];
  for (const line of gridLines(rows, count, columns)) {
    const runs = runsOf(line.seats);
    const layout = JSON.stringify(runs);
    if (layout !== known) {
      const isAlone = runs.length === 1;
      y += (known ? between : 0) + (isAlone ? 0 : LABEL_LINE);
      known = layout;
      open = runs.map(({ at, from, to }) => {
        const host = hosts[at];
        const place = { x: left + from * step - pad, y: y - pad, width: (to - from + 1) * step - gap + 2 * pad, height: 0 };
        const words = host.state === "up" ? host.name : `${host.name} ${host.state}`;
        if (isAlone) label(edge, y + 2 * LABEL_LINE - 3, words, edge, host.name);
        else label(place.x + 1, place.y - 3, words, place.width + gap, host.name);
        return { host, ...place };
      });
      frames.push(...open);
    }
    label(edge, y + LABEL_LINE - 3, line.words);
    line.seats.forEach((seat, i) => seats.push({ ...seat, x: left + i * step, y }));
    for (const frame of open) frame.height = y + size.height + pad - frame.y;
    y += size.height + gap;
  }
  const plain = dense ? null : plainRoute(seats, { pad, size });
  const grid = { x: 0, y: 0, gap, seats, plain, routes: [], frames, labels };
  return { dense, width: dense ? width : Math.max(width, needed), height: y - gap + pad + 1, hosts: [], groups: [], network: null, grid };
}
