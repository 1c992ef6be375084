/** Texts that ranks and the coordinator have answered with, below the picture, to be read and closed. */

import { makeButton } from "./buttons.js";
import { html, write } from "./nodes.js";
import { withoutTimes } from "./words.js";

const ANSWER_TITLES = { stacks: "Stacks", explain: "Explanation" };

/** @param {Element} parent @param {string} title @param {boolean} hasTitle */
function makeSection(parent, title, hasTitle) {
  const node = html("section", "jd-section", parent);
  if (hasTitle) html("h4", "jd-section-title", node).textContent = title;
  const text = html("pre", "jd-section-text", node);
  // A long text is scrolled, which the keyboard can do only where it can stand.
  text.tabIndex = 0;
  text.setAttribute("role", "group");
  text.setAttribute("aria-label", title);
  text.dataset.part = title;
  return { node, text };
}

/**
 * Sections whose nodes stay while their texts change.
 * @param {Element} parent
 * @param {{hasTitles: boolean}} look whether each has a heading
 */
export function createSections(parent, { hasTitles }) {
  /** @type {Map<string, ReturnType<typeof makeSection>>} */
  const known = new Map();
  return {
    /** @param {import("./requests.js").Section[]} sections */
    set(sections) {
      for (const { title, text } of sections) {
        const section = known.get(title) ?? makeSection(parent, title, hasTitles);
        known.set(title, section);
        write(section.text, "text", text.trimEnd());
      }
    },
  };
}

/**
 * One answer of each kind, the newest of it.
 * @param {Element} parent
 */
export function createAnswers(parent) {
  const shown = new Map();

  /** @param {string} kind */
  function makeAnswer(kind) {
    const node = html("section", "jd-answer", parent);
    node.dataset.kind = kind;
    const title = ANSWER_TITLES[kind] ?? kind;
    node.setAttribute("aria-label", title);
    const head = html("div", "jd-panel-head", node);
    html("h3", "jd-panel-title", head).textContent = title;
    const when = html("span", "jd-panel-when", head);
    const close = makeButton(head, "jd-close", "Close", `Close: ${title}`, () => {
      node.remove();
      shown.delete(kind);
      const button = parent.closest(".jd-topology")?.querySelector(`.jd-${kind}`);
      if (button instanceof HTMLElement) button.focus();
    });
    close.setAttribute("aria-label", `Close: ${title}`);
    const body = html("div", "jd-sections", node);
    node.scrollIntoView({ block: "nearest" });
    return { when, body, sections: createSections(body, { hasTitles: false }) };
  }

  return {
    /** Whether an open answer says this too, times apart. @param {string} words */
    say(words) {
      const plain = withoutTimes(words);
      return [...shown.values()].some(({ body }) => withoutTimes(body.textContent ?? "").includes(plain));
    },
    /** @param {string} kind @param {import("./requests.js").Answer} answer */
    take(kind, answer) {
      if (!answer.sections?.length) return;
      if (!shown.has(kind)) shown.set(kind, makeAnswer(kind));
      const { when, sections } = shown.get(kind);
      write(when, "text", `as of ${new Date().toLocaleTimeString()}`);
      sections.set(answer.sections);
    },
  };
}
