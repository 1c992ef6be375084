"""One comm of a rank, as the kernel has it: a comm with the same id, and the state it has told.

The id stays the rank's, which is as random as the kernel's own: so whatever names a model, a
widget, its layout or the code of a library, goes on naming it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import comm
from ipywidgets.widgets import widget as of_ipywidgets

from jupyter_dist.protocol.codec import Frame
from jupyter_dist.views.widgets.during_cells import let_messages_through

_REFERENCE = "IPY_MODEL_"

Send = Callable[[str, dict[str, Any], Sequence[Frame]], None]
"""Takes the kind of a message of the page, its content and its buffers."""


class Mirror:
    """Stands in for a widget of a rank among those of the kernel.

    So a page that is loaded again gets it back, a saved notebook has its state, and
    `Widget.close_all()` closes it.
    """

    def __init__(self, model_id: str, content: Mapping[str, Any], buffers: Sequence[Frame]) -> None:
        """Open the kernel's comm, with what the rank's was opened with."""
        self.model_id = model_id
        self.comm: Any = None
        self._state: dict[str, Any] = {}
        data = content["data"]
        self._take_state(data, buffers)
        self.comm = comm.create_comm(
            target_name=content["target_name"],
            data=data,
            metadata=content.get("metadata"),
            buffers=list(buffers),
            comm_id=model_id,
        )
        let_messages_through(self.comm)
        if "_model_name" in self._state:
            of_ipywidgets._instances[model_id] = self  # noqa: SLF001

    def connect(self, send: Send) -> None:
        """Hand on what the page says from now on."""
        self._send = send
        self.comm.on_msg(self._on_message)
        self.comm.on_close(lambda message: send("close", _content(message), ()))

    # --- from the rank ---

    def take(self, content: Mapping[str, Any], buffers: Sequence[Frame]) -> None:
        """Hand a message of the rank on to the page."""
        data = content["data"]
        if isinstance(data, Mapping) and data.get("method") == "update":
            self._take_state(data, buffers)
        self.comm.send(data=data, metadata=content.get("metadata"), buffers=list(buffers))

    def end(self) -> None:
        """Close the comm: the page removes its views, and the rank hears nothing."""
        of_ipywidgets._instances.pop(self.model_id, None)  # noqa: SLF001
        self.comm.close()

    @property
    def children(self) -> set[str]:
        """Ids of the models that its state names."""
        return set(_references(self._state))

    # --- from the page ---

    def _on_message(self, message: Mapping[str, Any]) -> None:
        """Answer what the kernel can, tell other pages, and hand it on; the kernel is idle then."""
        data, buffers = message["content"]["data"], message.get("buffers") or ()
        method = data.get("method") if isinstance(data, Mapping) else None
        if method == "request_state":
            self._tell_state("update", self._state)
            return
        if method == "update":
            state = self._take_state(data, buffers)
            if of_ipywidgets.JUPYTER_WIDGETS_ECHO and not buffers:
                self._tell_state("echo_update", state)
        self._send("msg", _content(message), buffers)

    def _tell_state(self, method: str, state: Mapping[str, Any]) -> None:
        plain, paths, buffers = of_ipywidgets._remove_buffers(state)  # noqa: SLF001
        self.comm.send({"method": method, "state": plain, "buffer_paths": paths}, buffers=buffers)

    def _take_state(self, data: Any, buffers: Sequence[Frame]) -> dict[str, Any]:
        state = dict(data.get("state") or {}) if isinstance(data, Mapping) else {}
        if buffers:
            state = _copy(state)  # buffers are put into it, and it is to be sent without them
            of_ipywidgets._put_buffers(state, data.get("buffer_paths") or (), buffers)  # noqa: SLF001
        self._state |= state
        return state

    # --- as ipywidgets asks its own widgets ---

    def get_state(self, key: object = None, drop_defaults: bool = False) -> dict[str, Any]:  # noqa: ARG002
        """Return all that the rank has told, and the page has changed."""
        return self._state

    def close(self) -> None:
        """Close it here and on its rank."""
        self._send("close", {"data": {}, "metadata": {}}, ())
        self.end()

    @property
    def _model_name(self) -> str:
        return str(self._state.get("_model_name"))

    @property
    def _model_module(self) -> str:
        return str(self._state.get("_model_module"))

    @property
    def _model_module_version(self) -> str:
        return str(self._state.get("_model_module_version"))

    _get_embed_state = of_ipywidgets.Widget._get_embed_state  # noqa: SLF001


def _content(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    return {"data": content.get("data"), "metadata": message.get("metadata") or {}}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _references(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value.removeprefix(_REFERENCE)] if value.startswith(_REFERENCE) else []
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return []
    return [found for item in value for found in _references(item)]
