/** A group of hosts: a frame, a line of words, and all ranks of one state as one shape. */

import { warningsOf } from "./facts.js";
import { svg, write } from "./nodes.js";
import { SAID_AS, STATES, clip, look, ranges } from "./words.js";

const SMALL_LETTER = 6.1;
const MOST_SPANS = 2;
const WIDE_LETTER = 7.3;
/** What is to be seen at once, worst first. */
const ALARMS = ["lost", "hung"];
const NOT_COUNTED = [...ALARMS, "awaited", "free"];

/** How a tile of each state looks, so that none needs its colour: a path from its upper left corner. */
const SHAPES = {
  starting: (s) => `h${s}v${s}h${-s}z`,
  idle: (s) => `m${s / 4},${s / 4}h${s / 2}v${s / 2}h${-s / 2}z`,
  busy: (s) => `h${s}v${s}h${-s}z`,
  collective: (s) => `h${s}v${s * 0.38}h${-s}zm0,${s * 0.62}h${s}v${s * 0.38}h${-s}z`,
  hung: (s) => `m${s / 2},-1l${s / 2 + 1},${s / 2 + 1}l${-s / 2 - 1},${s / 2 + 1}l${-s / 2 - 1},${-s / 2 - 1}z`,
  lost: (s) => `l${s},${s}m${-s},0l${s},${-s}`,
  left: (s) => `m${s / 2 - 0.5},${s / 2 - 0.5}h1v1h-1z`,
  free: (s) => `m${s / 4},${s / 2}h${s / 2}v1h${-s / 2}z`,
  awaited: (s) => `m-1,-1h${s + 2}v${s + 2}h${-s - 2}z`,
};

/** The nodes of a group. @param {string} key */
export function makeGroup(key) {
  const node = svg("g", { class: "jd-group", role: "option", tabindex: -1, "aria-selected": "false", "data-key": key });
  const box = svg("rect", { class: "jd-group-box", rx: 6 }, node);
  const name = svg("text", { class: "jd-group-name", x: 8, y: 16 }, node);
  const words = svg("text", { class: "jd-group-words", x: 8, y: 30 }, node);
  const title = svg("title", {}, node);
  const nodes = { node, box, name, words, title };
  return { ...nodes, shapes: new Map(), seat: { key }, hosts: [], isAwaited: false, place: null, x: 0, y: 0, width: 0, height: 0, radius: 6 };
}

/** @param {ReturnType<typeof makeGroup>} group @param {GroupPlan} place */
export function layGroup(group, place) {
  const { x, y, width, height } = place;
  Object.assign(group, { place, hosts: [], x, y, width, height });
  write(group.node, "transform", `translate(${x},${y})`);
  write(group.box, "width", width - 1);
  write(group.box, "height", height - 1);
  write(group.node, "data-open", place.isOpen ? "yes" : "no");
}

/** Ranks by state; GPUs without a rank are `free`. @param {Host[]} hosts */
function sortTiles({ place }, hosts, awaited) {
  /** @type {Map<string, Tile[]>} */
  const found = new Map();
  const add = (state, tile) => (found.has(state) ? found.get(state).push(tile) : found.set(state, [tile]));
  let at = -1;
  let engines = new Map();
  for (const tile of place.tiles) {
    if (tile.at !== at) {
      at = tile.at;
      engines = new Map(hosts[at - place.first].engines.map((engine) => [engine.rank, engine]));
    }
    add(tile.rank === null ? "free" : (engines.get(tile.rank)?.state ?? "left"), tile);
    if (awaited.has(tile.rank)) add("awaited", tile);
  }
  return found;
}

const ranksIn = (/** @type {Tile[]} */ tiles) => ranges(tiles.map((tile) => tile.rank));

/** Which ranks, or how many where their numbers are too long to read. @param {Tile[]} tiles */
function fewRanks(tiles) {
  const ranks = ranksIn(tiles);
  return ranks.split(",").length > MOST_SPANS ? String(tiles.length) : `rank${tiles.length > 1 ? "s" : ""} ${ranks}`;
}

/** `rank 37 lost · 126 busy`: what is wrong first, and of that the ranks. */
function wordsOf(found, odd) {
  const alarms = [...ALARMS, "awaited"].filter((state) => found.has(state));
  const others = [...found.keys()].filter((state) => !NOT_COUNTED.includes(state));
  const words = alarms.map((state) => `${fewRanks(found.get(state))} ${STATES[state]?.word ?? state}`);
  if (odd) words.push(`⚠ ${odd} GPU${odd > 1 ? "s" : ""}`);
  return [...words, ...others.map((state) => `${found.get(state).length} ${look(state).word}`)];
}

/** The same for the ear: what changes many times a second is one word. */
function labelOf(place, found, odd) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const [state, tiles] of found) {
    if (NOT_COUNTED.includes(state)) continue;
    const word = SAID_AS[state] ?? look(state).word;
    counts.set(word, (counts.get(word) ?? 0) + tiles.length);
  }
  const alarms = [...ALARMS, "awaited"].filter((state) => found.has(state));
  const bad = alarms.map((state) => `ranks ${ranksIn(found.get(state))} ${STATES[state]?.word ?? state}`);
  const ranks = ranksIn(place.tiles.filter((tile) => tile.rank !== null));
  const well = [...counts].map(([word, count]) => `${count} ${word}`);
  const warned = odd ? [`warnings of ${odd} GPUs`] : [];
  const said = [...bad, ...warned, ...well].join(", ");
  return `${place.key}, ranks ${ranks}: ${said}; Enter ${place.isOpen ? "hides" : "shows"} each`;
}

/**
 * Write what changed of a group.
 * @param {ReturnType<typeof makeGroup>} group
 * @param {Host[]} hosts of the group
 * @param {Set<number>} awaited
 */
export function updateGroup(group, hosts, awaited) {
  const { node, place, shapes } = group;
  const isAwaited = place.tiles.some((tile) => awaited.has(tile.rank));
  if (!isAwaited && !group.isAwaited && hosts.every((host, i) => host === group.hosts[i])) return;
  Object.assign(group, { hosts, isAwaited });
  const found = sortTiles(group, hosts, awaited);
  const odd = hosts.reduce((sum, host) => sum + host.gpus.filter((gpu) => warningsOf(gpu).length).length, 0);
  for (const [state, tiles] of found) {
    if (!shapes.has(state)) shapes.set(state, svg("path", { class: "jd-tiles", "data-state": state }, node));
    const shape = (SHAPES[state] ?? SHAPES.busy)(place.side);
    write(shapes.get(state), "d", tiles.map(({ x, y }) => `M${x},${y}${shape}`).join(""));
  }
  for (const [state, path] of shapes) if (!found.has(state)) write(path, "d", "");
  const words = wordsOf(found, odd);
  const room = place.width - 16;
  write(group.name, "text", clip(place.name, Math.floor(room / WIDE_LETTER)));
  write(group.words, "text", clip(words.join(" · "), Math.floor(room / SMALL_LETTER)));
  write(group.title, "text", `${place.name}: ${words.join(" · ")}`);
  write(node, "data-alarm", ALARMS.find((state) => found.has(state)) ?? (odd || found.has("awaited") ? "odd" : "none"));
  write(node, "aria-label", labelOf(place, found, odd));
}
