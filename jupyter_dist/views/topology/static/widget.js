import { createView } from "./view.js";

/** The widget's door. A factory, so that replies reach views which share one model. */
export default () => {
  /** @type {Set<ReturnType<typeof createView>>} */
  const views = new Set();
  return {
    initialize({ model }) {
      model.on("msg:custom", (/** @type {Reply} */ reply) => views.forEach((view) => view.reply(reply)));
    },
    render({ model, el }) {
      const view = createView(el, (message) => model.send(message), { isObserver: model.get("is_observer") });
      const refresh = () => view.update(model.get("state"));
      views.add(view);
      model.on("change:state", refresh);
      refresh();
      return () => {
        model.off("change:state", refresh);
        views.delete(view);
        view.destroy();
      };
    },
  };
};
