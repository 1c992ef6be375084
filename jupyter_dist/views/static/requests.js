/** The buttons and the honest state of what they asked for. */

import { html } from "./nodes.js";

const ANSWER_WITHIN_MS = 2000;
const CONFIRM_WITHIN_MS = 3000;

/** The buttons and the honest state of what they asked for. */
export function createCommands(buttons, line, /** @type {(message: object) => void} */ send) {
  let asked = { id: "", kind: "" };
  let waiting = 0;
  let armed = 0;

  /** @param {string} words @param {boolean} ok */
  function say(words, ok) {
    line.hidden = false;
    line.textContent = words;
    line.dataset.ok = ok ? "yes" : "no";
  }
  function ask(/** @type {string} */ kind) {
    clearTimeout(waiting);
    asked = { kind, id: `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}` };
    try {
      send(asked);
    } catch (error) {
      say(`${kind}: not sent: ${error}`, false);
      return;
    }
    say(`${kind}: sent…`, true);
    const instead = kind === "stop" ? "use %dist_stop" : "use ■";
    waiting = setTimeout(() => say(`${kind}: no answer after 2 s: ${instead}`, false), ANSWER_WITHIN_MS);
  }
  const interrupt = html("button", "jd-interrupt", buttons);
  interrupt.textContent = "Interrupt";
  interrupt.title = "Interrupt the running cell on all ranks";
  interrupt.onclick = () => ask("interrupt");
  const stop = html("button", "jd-stop", buttons);
  stop.title = "End the cluster and every process of it";
  function disarm() {
    clearTimeout(armed);
    armed = 0;
    stop.textContent = "Stop";
    delete stop.dataset.armed;
  }
  stop.onclick = () => {
    if (armed) {
      disarm();
      ask("stop");
      return;
    }
    stop.textContent = "Really stop?";
    stop.dataset.armed = "";
    armed = setTimeout(disarm, CONFIRM_WITHIN_MS);
  };
  disarm();
  return {
    /** @param {string} state */
    allow(state) {
      interrupt.disabled = state !== "ready";
      stop.disabled = state !== "ready" && state !== "starting";
    },
    /** @param {Reply} reply */
    reply(reply) {
      if (reply?.kind !== "reply" || reply.id !== asked.id) return;
      clearTimeout(waiting);
      say(`${asked.kind}: ${reply.ok ? "delivered" : "not done"}: ${reply.text}`, reply.ok);
    },
    destroy() {
      clearTimeout(waiting);
      clearTimeout(armed);
    },
  };
}
