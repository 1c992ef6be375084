/** The box that picks ranks of a large cluster, by numbers or by a state. */

import { html, makeField, ownId, write } from "./nodes.js";
import { STATES } from "./words.js";

const ACCEPTED = `write ranks as 0,5-9, or a state: ${Object.keys(STATES).join(", ")}`;
const NUMBERS = /^\d+(-\d+)?(,\d+(-\d+)?)*$/;
/** Words of states that people also use. */
const ALSO = { "hung?": "hung", "in collective": "collective", computing: "busy" };

/**
 * What a text picks: all (null), or a test for engines; undefined where it makes no sense.
 * @param {string} text
 * @returns {((engine: Engine) => boolean) | null | undefined}
 */
export function pickOf(text) {
  const words = text.trim().toLowerCase().replace(/\s*([,-])\s*/g, "$1");
  if (!words || words === "all") return null;
  const state = ALSO[words] ?? words;
  if (state in STATES) return (engine) => engine.state === state;
  if (!NUMBERS.test(words)) return undefined;
  const spans = words.split(",").map((part) => part.split("-").map(Number));
  return ({ rank }) => spans.some(([first, last = first]) => rank >= first && rank <= last);
}

/** Only what is picked; hosts on which nothing is leave the picture. @param {Topology} state */
export function picked(state, pick) {
  if (!pick) return state;
  const hosts = state.hosts.map((host) => {
    const engines = host.engines.filter(pick);
    const mine = new Set(engines.flatMap((engine) => engine.devices ?? []).concat(engines.map((engine) => engine.device)));
    return { ...host, engines, gpus: host.gpus.filter((gpu) => mine.has(gpu.index)) };
  });
  return { ...state, hosts: hosts.filter((host) => host.engines.length) };
}

/** The box itself, hidden while there are few ranks. @param {Element} parent */
export function createFilter(parent, /** @type {() => void} */ onChange) {
  const { row, box } = makeField(parent, "jd-filter", "input", "Show ranks");
  const said = html("output", "", row);
  box.id = ownId("filter");
  Object.assign(box, { type: "text", placeholder: "all, 0,5-9 or hung", autocomplete: "off", spellcheck: false });
  said.setAttribute("for", box.id);
  box.addEventListener("input", onChange);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.value) return;
    box.value = "";
    onChange();
  });
  return {
    /** Show the box where it is useful, and as long as something is written in it. @param {boolean} isUseful */
    offer(isUseful) {
      row.hidden = !isUseful && !box.value;
    },
    /** @param {Topology} state @returns {Topology} */
    apply(state) {
      const pick = pickOf(box.value);
      box.setAttribute("aria-invalid", String(pick === undefined));
      if (pick === null) {
        write(said, "text", "");
        return state;
      }
      const chosen = picked(state, pick ?? null);
      const count = (/** @type {Topology} */ of) => of.hosts.reduce((n, host) => n + host.engines.length, 0);
      write(said, "text", pick ? `${count(chosen)} of ${count(state)} ranks` : ACCEPTED);
      return chosen;
    },
  };
}
