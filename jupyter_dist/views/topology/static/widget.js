import { createReceiver } from "./changes.js";
import { createView } from "./view.js";

/** The live widget, behind door.js. A factory, so that what is told reaches views which share one model. */
export default () => {
  /** @type {Set<ReturnType<typeof createView>>} */
  const views = new Set();
  const receiver = createReceiver();
  /** @type {Topology | null} */
  let state = null;
  let isAsking = false;
  return {
    initialize({ model, missed = [] }) {
      const take = (/** @type {Told} */ told) => {
        state = receiver.take(told);
        if (state) {
          isAsking = false;
          for (const view of views) view.update(state);
        } else if (!isAsking) {
          isAsking = true;
          model.send({ kind: "whole" });
        }
      };
      function hear(/** @type {{kind: string, told: Told} | Reply} */ message) {
        if (message.kind === "change" || message.kind === "script") take(message.told);
        else views.forEach((view) => view.reply(message));
      }
      model.on("msg:custom", hear);
      missed.forEach(hear);
    },
    render({ model, el }) {
      const view = createView(el, (message) => model.send(message), {
        isObserver: model.get("is_observer"),
        onArranged: (across) => model.send({ kind: "arrange", across }),
      });
      views.add(view);
      if (state) view.update(state);
      return () => {
        views.delete(view);
        view.destroy();
      };
    },
  };
};
