/**
 * Reads what a page is told of a cluster: a whole state, then what changed since the one before.
 * jupyter_dist/views/topology/changes.py writes it and says what it means.
 *
 * @typedef {{base: number, number: number, passed_s: number, change: object, records?: object}} Told
 */

/** Let all ages grow that grow with time; changes.py does the same. */
function growOlder(/** @type {Topology} */ { hosts }, /** @type {number} */ passed_s) {
  for (const host of hosts) {
    if (host.sampled_s) host.sampled_s += passed_s;
    for (const engine of host.engines) {
      if (engine.beat_age_s) engine.beat_age_s += passed_s;
      if (engine.cell) engine.busy_s += passed_s;
      if (engine.collective?.is_running) engine.collective.seconds += passed_s;
    }
    for (const gpu of host.gpus) if (gpu.xid) gpu.xid_age_s += passed_s;
  }
}

/** Make of a value what is told of it. */
function patched(known, change, name, records) {
  const isRecord = change !== null && typeof change === "object" && !Array.isArray(change);
  if (!isRecord) return change;
  if (!("length" in change)) return patch(known ?? { ...records[name] }, change, records);
  const list = (known ?? []).slice(0, change.length);
  for (const place in change) {
    if (place !== "length") list[place] = patch({ ...(list[place] ?? records[name]) }, change[place], records);
  }
  return list;
}

function patch(target, change, records) {
  for (const name in change) target[name] = patched(target[name], change[name], name, records);
  return target;
}

/** The state of one cluster, by all that was told of it in order. */
export function createReceiver() {
  /** @type {Topology | null} */
  let state = null;
  let number = 0;
  let records = {};
  return {
    /**
     * @param {Told} told
     * @returns {Topology | null} the state, which the next change will change; null: something is
     *   missing, and nothing is known until the whole is told
     */
    take(told) {
      if (told.base === 0) {
        records = told.records ?? {};
        state = patch({}, told.change, records);
      } else {
        if (!state || told.base !== number) return (state = null);
        growOlder(state, told.passed_s);
        patch(state, told.change, records);
      }
      number = told.number;
      return state;
    },
  };
}
