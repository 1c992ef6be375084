/** Who is in the same collective at this moment, who sends to whom, and who is awaited. Pure. */

const MESSAGES = ["send", "recv", "send_recv"];

/**
 * @typedef {{key: string, operation: string, sequence: number, ranks: number[], isHung: boolean}} Call
 * @typedef {{from: number, to: number, isHung: boolean}} Message
 */

/** Ranks of a communicator, as `0,2-3~1` names them. @param {string} group @param {number[]} all */
function membersOf(group, all) {
  const named = group.split("~")[0];
  if (!named) return all;
  return named.split(",").flatMap((part) => {
    const [first, last = first] = part.split("-").map(Number);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);
  });
}

/** The other end of a message, as the cluster counts. */
function peerOf(/** @type {Collective} */ call, all) {
  return call.root < 0 ? undefined : membersOf(call.group ?? "", all)[call.root];
}

/**
 * @param {Topology} state
 * @returns {{calls: Call[], messages: Message[], awaited: Set<number>}}
 */
export function callsOf(state) {
  const engines = state.hosts.flatMap((host) => host.engines);
  const inside = engines.filter(({ collective, state: each }) => {
    return collective?.is_running && !collective.is_earlier && (each === "collective" || each === "hung");
  });
  const all = engines.map((engine) => engine.rank).sort((a, b) => a - b);
  const operations = new Map(inside.map((engine) => [engine.rank, engine.collective.operation]));
  const known = new Set(all);
  /** @type {Map<string, Call & {members: number[]}>} */
  const calls = new Map();
  const messages = [];
  const waited = new Set();
  for (const { rank, state: each, collective } of inside) {
    const { operation, sequence, group = "" } = collective;
    if (MESSAGES.includes(operation)) {
      const peer = peerOf(collective, all);
      if (peer === undefined || !known.has(peer)) continue;
      const [from, to] = operation === "recv" ? [peer, rank] : [rank, peer];
      messages.push({ from, to, isHung: each === "hung" });
      if (!MESSAGES.includes(operations.get(peer))) waited.add(peer);
      continue;
    }
    const key = `${operation} ${sequence} ${group}`;
    let call = calls.get(key);
    if (!call) {
      const members = membersOf(group, all);
      calls.set(key, (call = { key, operation, sequence, ranks: [], isHung: false, members }));
    }
    call.ranks.push(rank);
    call.isHung ||= each === "hung";
  }
  for (const { members, ranks } of calls.values()) {
    const came = new Set(ranks);
    for (const rank of members) if (!came.has(rank)) waited.add(rank);
  }
  const gone = new Set(engines.filter((engine) => ["lost", "left"].includes(engine.state)).map((engine) => engine.rank));
  const awaited = new Set(state.note ? [...waited].filter((rank) => !gone.has(rank)) : []);
  return { calls: [...calls.values()], messages, awaited };
}
