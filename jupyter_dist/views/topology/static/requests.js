/**
 * What a view asks for, and the honest state of each request: a line that says how far it is, and
 * since when.
 *
 * @typedef {{title: string, text: string}} Section
 * @typedef {{kind: string, id: string, ok: boolean, text: string, is_final?: boolean,
 *   sections?: Section[]}} Answer
 * @typedef {{kind: string, ranks?: number[], rank?: number}} Wanted
 * @typedef {{title?: string, hasLine?: boolean, onAnswer?: (answer: Answer) => void}} AskOptions
 * @typedef {{title: string, line: ReturnType<typeof makeLine> | null, askedAt: number,
 *   toldAt: number, isOver: boolean, ok: boolean, timer: number,
 *   onAnswer?: (answer: Answer) => void}} Asked
 */

import { html, write } from "./nodes.js";
import { seconds } from "./words.js";

const ANSWER_WITHIN_MS = 2000;
const TELL_AGE_AFTER_MS = 3000;
const FORGET_AFTER_MS = 60000;
const MOST_LINES = 4;

/** One line: the words, and an age that is not read out each second. @param {Element} list */
function makeLine(list) {
  const node = document.createElement("div");
  node.className = "jd-request";
  list.prepend(node);
  const words = html("span", "jd-request-words", node);
  const age = html("span", "jd-age", node);
  age.setAttribute("aria-hidden", "true");
  return { node, words, age };
}

/**
 * Keep the requests of one view.
 * @param {Element} list where their lines go, the newest first
 * @param {(request: object) => void} send carries a request to whoever can act on it
 * @param {(kind: string) => string} instead says what to do when nobody answers, as `: use ■`
 */
export function createRequests(list, send, instead) {
  /** @type {Map<string, Asked>} requests that have no final answer yet */
  const open = new Map();
  /** @type {Asked[]} requests that have a line, the newest first */
  let shown = [];

  /** @param {Asked} asked @param {string} words @param {boolean} ok */
  function say(asked, words, ok) {
    asked.ok = ok;
    asked.toldAt = performance.now();
    if (!asked.line) return;
    write(asked.line.words, "text", `${asked.title}: ${words}`);
    write(asked.line.node, "data-ok", ok ? "yes" : "no");
    tick();
  }

  /** Forget what ended well a while ago, and of too many lines the oldest that has ended. */
  function tidy() {
    const now = performance.now();
    const isOld = (/** @type {Asked} */ each) => each.isOver && each.ok && now - each.toldAt > FORGET_AFTER_MS;
    let tooMany = shown.length - MOST_LINES;
    const kept = [...shown].reverse().filter((each) => {
      const goes = isOld(each) || (tooMany > 0 && (each.isOver || !each.ok));
      if (goes) tooMany -= 1;
      return !goes;
    });
    const left = new Set(kept);
    for (const each of shown) if (!left.has(each)) each.line?.node.remove();
    shown = shown.filter((each) => left.has(each));
    list.toggleAttribute("hidden", shown.length === 0);
  }

  /** Say the age of what is shown; called each second. */
  function tick() {
    tidy();
    const now = performance.now();
    for (const each of shown) {
      const since = now - (each.isOver ? each.toldAt : each.askedAt);
      const whole = Math.floor(since / 1000);
      const age = ` · ${whole < 10 ? `${whole} s` : seconds(whole)}${each.isOver ? " ago" : ""}`;
      if (each.line) write(each.line.age, "text", since < TELL_AGE_AFTER_MS ? "" : age);
    }
  }

  /**
   * Ask for something. Without a line only `onAnswer` hears what becomes of it.
   * @param {Wanted} wanted
   * @param {AskOptions} [options]
   */
  function ask(wanted, { title = wanted.kind, hasLine = true, onAnswer } = {}) {
    const id = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    const now = performance.now();
    /** @type {Asked} */
    const asked = { title, line: hasLine ? makeLine(list) : null, askedAt: now, toldAt: now, isOver: false, ok: true, timer: 0, onAnswer };
    if (hasLine) shown.unshift(asked);
    open.set(id, asked);
    const tell = (/** @type {string} */ text) => {
      say(asked, text, false);
      onAnswer?.({ kind: "reply", id, ok: false, text, is_final: false });
    };
    say(asked, "sent…", true);
    asked.timer = setTimeout(() => tell(`no answer after 2 s${instead(wanted.kind)}`), ANSWER_WITHIN_MS);
    try {
      send({ ...wanted, id });
    } catch (error) {
      clearTimeout(asked.timer);
      open.delete(id);
      asked.isOver = true;
      tell(`not sent: ${error}`);
    }
  }

  /** Take in an answer, however late; of other views' requests nothing is known here. */
  function answer(/** @type {Answer} */ told) {
    const asked = told?.kind === "reply" ? open.get(told.id) : undefined;
    if (!asked) return;
    clearTimeout(asked.timer);
    asked.isOver = told.is_final !== false;
    const took = performance.now() - asked.askedAt;
    const late = took > ANSWER_WITHIN_MS ? ` (after ${seconds(took / 1000)})` : "";
    const end = `${told.ok ? "delivered" : "not done"}${late}: `;
    if (asked.isOver) open.delete(told.id);
    say(asked, `${asked.isOver ? end : ""}${told.text}`, told.ok);
    asked.onAnswer?.(told);
  }

  return {
    ask,
    answer,
    tick,
    destroy() {
      for (const each of open.values()) clearTimeout(each.timer);
      open.clear();
    },
  };
}
