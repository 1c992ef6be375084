"""Messages between two ranks in device memory, and groups of calls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.calls import arguments
from jupyter_dist.collective.calls.call import Signature
from jupyter_dist.collective.exchange import (
    End,
    Exchange,
    MessageCalls,
    Messages,
    check_filled_later,
)
from jupyter_dist.collective.nccl import launch
from jupyter_dist.collective.nccl.device import Device, Ways
from jupyter_dist.collective.nccl.launch import Plan
from jupyter_dist.collective.nccl.libraries import DeviceLibrary, other_device
from jupyter_dist.errors import UsageError


class _Grouped(Exchange):
    """Calls that wait for the end of their group, all on one stream."""

    def __init__(self) -> None:
        super().__init__()
        self.collectives: list[tuple[Plan, Any, Any]] = []
        self.library: DeviceLibrary | None = None
        self.stream = 0
        self.current: Any = None
        """The stream itself."""


class DeviceMessages(MessageCalls, Device):
    """The part of DeviceCalls that is not a collective. Arrays are of the library in use."""

    def __init__(self, host_log: CallLog, ways: Ways) -> None:
        super().__init__(host_log, ways)
        self._plans: dict[tuple[Any, ...], Plan] = {}
        self._messages = Messages(self.log)
        self._grouped: _Grouped | None = None
        self._run: Callable[[Plan, Any, Any], None] = self.queue
        """Carries out a collective: now, or within a group when that ends."""

    @contextmanager
    def group(self) -> Iterator[None]:
        """Begin all calls inside when the block ends: messages together, then collectives.

        Each collective is a call of its own, in the order of the block: within a group of NCCL it
        would not be certain that one sees what another has written.
        """
        self._grouped = grouped = _Grouped()
        self._run = self._put_off
        try:
            yield
        finally:
            self._grouped, self._run = None, self.queue
        if grouped.library is None:
            return
        # The stream of the calls, whatever is the current one by now.
        with self.using(grouped.library), self.cuda.on(grouped.current):
            self._run_exchange("group", grouped)
            for plan, source, target in grouped.collectives:
                self._run(plan, source, target)

    def check_group(self) -> None:
        """Raise, before anything of it is sent, what the end of the open group would raise."""
        grouped = self._grouped
        if grouped is None or grouped.library is None:
            return
        self._check_not_captured("group", grouped.stream)
        ends = (*grouped.sent, *grouped.received)
        if any(end.peer != self.rank and end.array.nbytes for end in ends):
            self._check_formable("group")

    # --- arrays ------------------------------------------------------------------------------

    def take(self, operation: str, given: Any) -> Any:
        """View what was given as a contiguous array of CuPy; raises TypeError and UsageError."""
        array = given if type(given) is self.plain else self._view(operation, given)
        if array.data.device_id != self.cuda.device_id and array.size:
            raise other_device(operation, array.data.device_id, self.cuda.device_id)
        if array.flags.c_contiguous:
            return array
        self._check_copy(operation)
        return self.cuda.contiguous(array)

    def _check_copy(self, operation: str) -> None:
        """Raise UsageError within a group: an earlier call of it may fill the input later."""
        if self._grouped is not None:
            raise UsageError(
                f"{operation} would have to copy its input or its result, which calls in "
                "comm.group() fill only when the group ends. Accepted inside a group: C-contiguous "
                "arrays that out does not overlap, or make the call outside the group."
            )

    def _view(self, operation: str, given: Any) -> Any:
        library = self.libraries.find(given)
        if library is None:
            raise mixed(operation, given)
        if library is not self.library:
            raise UsageError(
                f"{operation} got arrays of {self.library.name} and of {library.name}. Accepted: "
                "arrays of one library. Convert one of them (torch.from_dlpack, cupy.from_dlpack)."
            )
        return library.view(operation, given)

    def _view_out(self, operation: str, given: Any) -> Any:
        if type(given) is self.plain:
            array = given
        else:
            self._view(operation, given)
            array = self.library.view_out(operation, given)
        if array.data.device_id != self.cuda.device_id and array.size:
            raise other_device(operation, array.data.device_id, self.cuda.device_id)
        return array

    # --- how it is done ----------------------------------------------------------------------

    def _put_off(self, plan: Plan, source: Any, target: Any) -> None:
        """Let a collective wait for the end of the group."""
        operation = plan.signature.operation
        grouped = self._grouped
        assert grouped is not None
        self.log.check_possible(operation)
        self._join_group(grouped, self.find_stream(operation))
        grouped.collectives.append((plan, source, target))

    def _join_group(self, grouped: _Grouped, stream: int) -> None:
        """Check that a call can wait for the end of the group."""
        check_filled_later(self.library.is_filled_later, self.library.name)
        if grouped.library is not None and grouped.stream != stream:
            raise UsageError(
                "comm.group() got calls on two CUDA streams. Accepted: one. Set comm.stream, or "
                "use a group for each."
            )
        grouped.library, grouped.stream = self.library, stream
        grouped.current = self.cuda.current_stream()

    def _add_sent(self, exchange: Exchange, operation: str, given: Any, dest: int) -> None:
        array = self.take(operation, given)
        arguments.check_dtype(operation, given, array.dtype)
        self.log.check_taking_part(operation, [dest])
        exchange.sent.append(End(self.log.sign("send", array, root=dest), array, dest))

    def _add_received(
        self, exchange: Exchange, operation: str, given: Any, source: int
    ) -> Callable[[], Any]:
        template = given if type(given) is self.plain else self._view(operation, given)
        arguments.check_dtype(operation, given, template.dtype)
        self.log.check_taking_part(operation, [source])
        signature = self.log.sign("recv", template, root=source)
        if not self.library.is_filled_later:
            output = self.library.empty(template.shape, template.dtype)
            exchange.received.append(End(signature, output[0], source))
            return partial(self.library.give, output)
        view = self._view_out(operation, given)
        if view.flags.c_contiguous:
            exchange.received.append(End(signature, view, source))
        else:
            beside = self.cuda.empty(view.shape, view.dtype)
            exchange.received.append(End(signature, beside, source))
            exchange.then.append(partial(self._write, view, beside))
        return lambda: given

    def _write(self, view: Any, array: Any) -> None:
        self.cuda.cupy.copyto(self.cuda.as_known(view), self.cuda.as_known(array))

    def _pass_on(self, operation: str, exchange: Exchange) -> None:
        grouped = self._grouped
        if grouped is None:
            self._run_exchange(operation, exchange)
            return
        self.log.check_intact()
        self._join_group(grouped, self.find_stream(operation))
        grouped.take_in(exchange)

    def _run_exchange(self, operation: str, exchange: Exchange) -> None:
        stream = self.find_stream(operation)
        others = self._messages.pass_to_self(
            exchange,
            lambda array: self._copied(array, stream),
            lambda output, array: self._copy(array, output, stream),
        )
        if others.sent or others.received:
            nbytes = others.find_nbytes()
            meant = Signature(operation, nbytes=nbytes, group=self.log.group.label)
            plan = Plan(meant, launch.exchange, (), None, nbytes)
            number = partial(self._messages.number, operation, others)
            self.queue(plan, None, None, number)
        for action in exchange.then:
            action()

    def _copied(self, array: Any, stream: int) -> Any:
        copied = self.cuda.empty(array.shape, array.dtype)
        self._copy(array, copied, stream)
        return copied

    def _copy(self, source: Any, target: Any, stream: int) -> None:
        self.cuda.copy(source.data.ptr, target.data.ptr, source.nbytes, stream)


def mixed(operation: str, given: Any) -> UsageError:
    """Say that no call mixes device and host memory."""
    return UsageError(
        f"{operation} got {type(given).__name__} in host memory beside an array on the device. "
        "Accepted: all arrays of a call in one memory. Copy it there (cupy.asarray(x)), or the "
        "other one to the host (cupy.asnumpy(x))."
    )
