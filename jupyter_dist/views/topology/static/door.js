/**
 * What pages and saved notebooks get as the script of a widget: a picture that stands still, with its
 * date, until the kernel sends the script of the live view (widget.js), and again when it has gone.
 */
const GONE_AFTER_MS = 60000;

export default () => {
  const views = new Set();
  let live = null;
  let isLoading = false;
  let isLive = false;
  let style = "";
  let silence = 0;
  /** @type {object[]} what is said while the script is loaded */
  const missed = [];

  function show(view, model) {
    view.close();
    view.el.innerHTML = isLive ? `<style>${style}</style>` : model.get("snapshot");
    view.close = isLive ? live.render({ model, el: view.el }) : () => {};
  }
  async function load(message, model) {
    isLoading = true;
    const url = URL.createObjectURL(new Blob([message.script], { type: "text/javascript" }));
    live = (await import(url)).default();
    URL.revokeObjectURL(url);
    style = message.style;
    live.initialize({ model, missed: [message, ...missed] });
  }
  return {
    initialize({ model }) {
      function enter(/** @type {boolean} */ next) {
        clearTimeout(silence);
        // Not every front end tells when a kernel has ended.
        if (next) silence = setTimeout(() => enter(false), GONE_AFTER_MS);
        if (isLive === next) return;
        isLive = next;
        for (const view of views) show(view, model);
      }
      model.on("msg:custom", async (message) => {
        if (message.kind === "script" && !isLoading) await load(message, model);
        else if (!live) missed.push(message);
        if (live) enter(true);
      });
      // The kernel has ended: what the picture shows will not change, and its buttons have no effect.
      model.on("comm_live_update", () => enter(false));
      if (!model.get("script_follows")) model.send({ kind: "script" });
    },
    render({ model, el }) {
      const view = { el, close: () => {} };
      views.add(view);
      show(view, model);
      return () => {
        views.delete(view);
        view.close();
      };
    },
  };
};
