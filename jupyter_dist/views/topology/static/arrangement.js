/** The choice how ranks are arranged: by hosts, or by the axes that are named over them. */

import { makeField } from "./nodes.js";

const REMEMBERED = "jupyter-dist:across";

/** What was chosen last, in whichever picture. Not every page may remember. @param {string} [chosen] */
function remember(chosen) {
  try {
    if (chosen !== undefined) localStorage.setItem(REMEMBERED, chosen);
    return localStorage.getItem(REMEMBERED);
  } catch {
    return chosen;
  }
}

/** `data down, model across`. @param {string[]} names @param {string} across */
function wordsOfChoice(names, across) {
  const down = names.filter((name) => name !== across).join(", ");
  return `${down && `${down} down, `}${across} across`;
}

/**
 * The choice, hidden while no axes are named.
 * @param {Element} parent
 * @param {() => void} onChange
 * @param {(across: string) => void} onChosen hears it as well when what was remembered is taken up
 */
export function createArrangement(parent, onChange, onChosen = () => {}) {
  const { row, box } = makeField(parent, "jd-arrange", "select", "Arrange by");
  let [offered, wanted, said] = ["", remember(), ""];
  function take() {
    if (said !== box.value) onChosen((said = box.value));
  }
  box.addEventListener("change", () => {
    wanted = remember(box.value);
    take();
    onChange();
  });
  return {
    /** Offer these axes. @param {string[]} names @returns {string} the one that goes across; empty: by hosts */
    offer(names) {
      row.hidden = !names.length;
      if (offered !== names.join()) {
        offered = names.join();
        box.replaceChildren(new Option("hosts", ""), ...names.map((name) => new Option(wordsOfChoice(names, name), name)).reverse());
        box.value = names.includes(wanted) ? wanted : "";
        take();
      }
      return said;
    },
  };
}
