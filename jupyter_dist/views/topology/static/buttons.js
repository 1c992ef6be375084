/** The buttons of a view; those that cannot be undone want a second click. */

import { html } from "./nodes.js";

const CONFIRM_WITHIN_MS = 3000;
export const OBSERVER = "This notebook only observes; %dist_attach --take-over runs cells from here";

/** @param {Element} parent @param {string} className @param {string} words @param {string} title */
export function makeButton(parent, className, words, title, onClick) {
  const button = /** @type {HTMLButtonElement} */ (html("button", className, parent));
  button.type = "button";
  button.textContent = words;
  button.title = title;
  button.onclick = onClick;
  return button;
}

/**
 * A button that acts on the second click within three seconds.
 * @param {Element} parent
 * @param {string} className
 * @param {{words: string, sure: string, title: string}} labels
 * @param {() => void} onSure
 */
export function makeArmedButton(parent, className, labels, onSure) {
  let armed = 0;
  const button = makeButton(parent, className, labels.words, labels.title, () => {
    if (armed) {
      disarm();
      onSure();
      return;
    }
    button.textContent = labels.sure;
    button.dataset.armed = "";
    armed = setTimeout(disarm, CONFIRM_WITHIN_MS);
  });
  function disarm() {
    clearTimeout(armed);
    armed = 0;
    button.textContent = labels.words;
    delete button.dataset.armed;
  }
  return {
    button,
    disarm,
    /** @param {{words: string, sure: string, title: string}} next */
    relabel(next) {
      if (next.words === labels.words) return;
      labels = next;
      button.title = labels.title;
      disarm();
    },
  };
}

/** What cannot be undone says of which cluster. */
function stopOf(/** @type {string} */ cluster) {
  return { words: `Stop ${cluster}…`, sure: `Really stop ${cluster}?`, title: `End ${cluster} and every process of it` };
}

/**
 * The buttons for the whole cluster.
 * @param {Element} parent
 * @param {ReturnType<import("./requests.js").createRequests>} requests
 * @param {ReturnType<import("./answers.js").createAnswers>} answers
 */
export function createButtons(parent, requests, answers) {
  /** Ask for something whose answer is a text to read. */
  const read = (/** @type {string} */ kind) =>
    requests.ask({ kind }, { onAnswer: (answer) => answers.take(kind, answer) });
  const ask = (/** @type {string} */ kind) => requests.ask({ kind });
  const interrupt = makeButton(parent, "jd-interrupt", "Interrupt", "Interrupt the running cell on all ranks", () => ask("interrupt"));
  const stacks = makeButton(parent, "jd-stacks", "Stacks", "Show what each rank is doing", () => read("stacks"));
  const explain = makeButton(parent, "jd-explain", "Explain", "Say what is the matter, and what can be done", () => read("explain"));
  const heal = makeButton(parent, "jd-heal", "Heal", "Replace the lost ranks; the others keep what they have", () => ask("heal"));
  const stop = makeArmedButton(
    parent,
    "jd-stop",
    stopOf("the cluster"),
    () => ask("stop")
  );
  return {
    /** @param {Topology} state @param {boolean} [isObserver] */
    allow(state, isObserver = false) {
      const isReady = state.state === "ready";
      stop.relabel(stopOf(state.cluster));
      const hasLost = state.hosts.some((host) => host.engines.some((engine) => engine.state === "lost"));
      for (const button of [stacks, explain]) button.disabled = !isReady;
      interrupt.disabled = isObserver || !isReady;
      heal.disabled = isObserver || !isReady || !hasLost;
      stop.button.disabled = isObserver || (!isReady && state.state !== "starting");
      if (isObserver) for (const button of [interrupt, heal, stop.button]) button.title = OBSERVER;
    },
    destroy: stop.disarm,
  };
}
