"""ipyparallel's client for the ranks of a cluster; it never waits for a controller that is gone."""

import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from time import monotonic
from typing import Any

import ipyparallel
from ipyparallel import error
from ipyparallel.serialize import canning
from tornado.ioloop import PeriodicCallback

from jupyter_dist.frameworks.ipyparallel.controller_messages import EVERYWHERE

_WATCH_INTERVAL_MS = 500
_HEARD_WITHIN_S = 2.0
_BUSY_AFTER_S = 0.5
"""A rank that has not carried out the smallest task after this time is busy with a cell."""
_OUTPUT_AFTER_S = 0.1
"""What a task has shown comes just before its result, or has got lost."""


class CannedBatch(canning.CannedObject):  # type: ignore[misc]  # not typed
    """A batch of joblib's whose functions travel as code, as those of views do.

    joblib would send their names only, and ranks know nothing of a notebook.
    """

    def __init__(self, batch: Any) -> None:
        self.buffers: list[bytes] = []  # ipyparallel looks for large ones
        self.kind, (calls, *self.rest) = batch.__reduce__()
        self.calls = [(canning.can(function), *given) for function, *given in calls]

    def get_object(self, g: dict[str, Any] | None = None) -> Any:
        """Return the batch, with `g` for the global names."""
        calls = [(canning.uncan(function, g), *given) for function, *given in self.calls]
        return self.kind(calls, *self.rest)


class RanksClient(ipyparallel.Client):  # type: ignore[misc]  # it is not typed
    """An `ipyparallel.Client` whose engine ids are the ranks of a cluster.

    As a context manager it ends the controller with the block, if nobody else uses that.
    """

    def __init__(
        self, connection: Mapping[str, Any], lives: Callable[[], bool], leave: Callable[[], None]
    ) -> None:
        """Connect; `lives` tells whether the controller does, `leave` that we need it no more."""
        self._lives, self._leave = lives, leave
        self.connection_info = dict(connection)
        """For `ipyparallel.Client` in other programs of this machine; it has the keys."""
        self._address = str(connection["address"])
        self.registration_s = float(connection["registration_s"])
        """How long all ranks have taken to register with the controller, once that served."""
        super().__init__(dict(connection))
        self._io_loop.add_callback(self._watch_controller)
        self._await_outputs()

    def __exit__(self, *failure: object) -> None:
        super().__exit__(*failure)
        self._leave()

    def close(self, linger: int | None = None) -> None:
        """Close the connections; what has not come back yet raises from now on."""
        if self._closed:
            return
        is_alive = self._lives()
        if threading.current_thread() is self._io_thread:  # as when the controller says goodbye
            self._close_streams()
        # Messages for a controller that is gone would keep this process from ending.
        super().close(linger=linger if is_alive else 0)
        for msg_id in list(self.outstanding):
            what = (
                "the connection to the ipyparallel controller is closed, or the controller "
                f"has ended; what became of task {msg_id} is not known here"
            )
            self._fail(msg_id, what)

    def load_balanced_view(self, *arguments: Any, **options: Any) -> Any:
        """Return a view that sends each task to a rank that has time."""
        view = super().load_balanced_view(*arguments, **options)
        register = view.register_joblib_backend

        def register_joblib_backend(*names: Any, **more: Any) -> None:
            register(*names, **more)
            # From now on batches travel like this; joblib is there already.
            canning.can_map.setdefault(sys.modules["joblib.parallel"].BatchedCalls, CannedBatch)

        view.register_joblib_backend = register_joblib_backend
        return view

    def become_dask(
        self,
        targets: Any = "all",
        port: int = 0,
        nanny: bool = False,
        scheduler_args: Mapping[str, Any] | None = None,
        **worker_args: Any,
    ) -> Any:
        """Make ranks workers of dask; its scheduler listens only where the ranks come from.

        It has no dashboard unless `scheduler_args` says so: anybody could open that.
        """
        arguments = {"dashboard": False, **(scheduler_args or {})}
        if self._address != EVERYWHERE:
            arguments.setdefault("host", self._address)
        return super().become_dask(targets, port, nanny, arguments, **worker_args)

    def _await_outputs(self) -> None:
        """Wait until what ranks show comes here: ZeroMQ tells nobody when a subscription holds.

        What is published before is lost, as the output of a first `%px print(…)`.
        """
        deadline_s = monotonic() + _HEARD_WITHIN_S
        while self.ids and monotonic() < deadline_s:
            probe = self[:].apply_async(int)
            if not probe.wait(_BUSY_AFTER_S):
                self.abort(probe, block=False)  # a rank that is stopped would never answer
                return  # by the time a cell ends, the subscription holds
            is_heard = probe.wait_for_output(_OUTPUT_AFTER_S)
            self._forget(probe.msg_ids)
            if is_heard:
                return

    def _forget(self, msg_ids: list[str]) -> None:
        """Keep nothing of tasks that were not asked for."""
        self.purge_local_results(msg_ids)
        for msg_id in msg_ids:
            self.history.remove(msg_id)
        # ipyparallel notes when it sent anything, as if that were a task's name.
        self.metadata.pop("submitted", None)

    def _close_streams(self) -> None:
        """Let the loop that we are on hear of no socket any more."""
        for name in self.trait_names():
            stream = getattr(self, f"{name.removesuffix('_socket')}_stream", None)
            if name.endswith("_socket") and stream is not None:
                stream.close(linger=0)

    def _handle_stranded_msgs(self, eid: int, uuid: str) -> None:
        """Fail what an engine that has left did not answer: the controller knows what it did.

        News of the engine overtakes its last answers, which come by other sockets.
        """
        for msg_id in () if self._closed else list(self._outstanding_dict[uuid]):
            asked = {"msg_ids": [msg_id], "status_only": True}
            request = self._send(self._query_stream, "result_request", asked)
            request.add_done_callback(partial(self._fail_unless_answered, eid, uuid, msg_id))

    def _fail_unless_answered(self, eid: int, uuid: str, msg_id: str, reply: Future[Any]) -> None:
        is_coming = msg_id in reply.result()["content"].get("completed", ())
        if msg_id in self.outstanding and not is_coming:
            what = f"Engine {eid} died, or left its controller, before it answered task {msg_id}"
            self._fail(msg_id, what, uuid)

    def _watch_controller(self) -> None:
        """Look, on the thread that does input and output, whether the controller lives."""
        self._watcher = PeriodicCallback(self._close_if_gone, _WATCH_INTERVAL_MS)
        self._watcher.start()

    def _close_if_gone(self) -> None:
        if not self._lives():
            self.close()

    def _fail(self, msg_id: str, what: str, engine: str | None = None) -> None:
        """Let the result of a task be an EngineError."""
        try:
            raise error.EngineError(what)
        except error.EngineError:
            content = error.wrap_exception()
        message = self.session.msg("apply_reply", content=content)
        message["parent_header"]["msg_id"] = msg_id
        message["metadata"]["engine"] = engine
        self._handle_apply_reply(message)
