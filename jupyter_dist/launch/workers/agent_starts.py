"""Start agents on nodes through workers of other systems.

There are three rounds: every worker says where it is; one of each node starts an agent, which says
a public key; the invitation goes there sealed with it, because what carries calls to workers may
keep them, and send them over networks as they are.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Protocol, Self

import msgspec

from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.launch.sealing import seal
from jupyter_dist.launch.workers.placement import (
    AgentBootstrap,
    BootstrapReply,
    NodeOf,
    Worker,
    WorkerKind,
    WorkerLocation,
    by_host,
    check_pythons,
    describe_failures,
    describe_silence,
    plan_bootstraps,
    read_readiness,
    write_call,
)
from jupyter_dist.text.lists import name_some

_SLICE_S = 0.2
"""Ctrl-C is seen between two waits."""
_QUIET_S = 1.0
"""Seconds after which a worker that has not answered is reported as busy."""
_WORKER_SHARE = 0.75
"""Of the time that is left: a worker must be able to say what its agent has said."""
_OTHERS_GRACE_S = 3.0
"""After one node failed, others may fail as well for so long: all of them are told at once."""
_GIVE_UP_TIMEOUT_S = 3.0


class Asked(Protocol):
    """What a worker was asked: a future of concurrent.futures, ipyparallel, Dask and others."""

    def add_done_callback(self, fn: Callable[[Any], object], /) -> object:
        """Have this called once there is a result."""

    def result(self) -> Any:
        """Return it, or raise what the call raised."""

    def cancel(self) -> object:
        """Take the call back if it has not begun."""


Submit = Callable[[Any, Callable[[], object]], Asked]
"""Has a worker call a function without arguments, in the same process each time."""


class AgentStarts:
    """Brings an agent onto each node where there is a worker, or leaves nothing there."""

    def __init__(
        self,
        submit: Submit,
        workers: Iterable[Worker],
        timeout_s: float,
        say: Callable[[str], None],
        kind: WorkerKind = WorkerKind(),  # noqa: B008  (a constant)
    ) -> None:
        self._submit = submit
        self._workers = list(workers)
        self._say = say
        self._kind = kind
        self.allow(timeout_s)
        self._asked: dict[Worker, Asked] = {}
        self._open: set[Worker] = set()
        """Those of them that have not answered."""
        self._is_failing = False
        self._answers: SimpleQueue[tuple[Worker, Asked]] = SimpleQueue()
        self.bootstraps: tuple[AgentBootstrap, ...] = ()
        """What starts, from `find` on."""
        self._keys: dict[Worker, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _stack: object) -> None:
        if error is not None:
            self.give_up()

    def allow(self, timeout_s: float) -> None:
        """Give the rounds that follow so much time, from now on."""
        self._timeout_s = timeout_s
        self._deadline_s = monotonic() + timeout_s

    def find(self, slots: int | None, node_of: NodeOf = by_host) -> int:
        """Ask every worker where it is; return the number of nodes. See plan_bootstraps."""
        answers = self._ask("look", {worker: {} for worker in self._workers})
        failed = [
            f"{self._kind.noun} {worker}: {found}"
            for worker, found in answers.items()
            if isinstance(found, BaseException)
        ]
        if failed:
            raise StartFailed(
                f"{self._kind.noun}s{self._kind.of_owner} could not say where they are. "
                f"{'; '.join(failed)}"
            )
        sites = {
            worker: self._read(worker, answers[worker], WorkerLocation) for worker in self._workers
        }
        check_pythons(sites, self._kind)
        self.bootstraps = plan_bootstraps(sites, slots, node_of)
        return len(self.bootstraps)

    def begin(self, words: Iterable[str], *, is_bound: bool = False) -> None:
        """Start an agent on each node; raises StartFailed naming those without, and why.

        A bound one ends with its worker.
        """
        names = name_some([each.name for each in self.bootstraps])
        self._say(f"{self._kind.owner or 'each worker'} starts agents on {names}")
        answers = self._ask_nodes(
            "begin",
            lambda each: {
                "words": [*_name(each), "--slots", str(each.slots), *words],
                "visible": each.visible,
                "is_bound": is_bound,
            },
        )
        for each in self.bootstraps:
            self._keys[each.worker] = read_readiness(each, answers[each.worker]).public_key

    def invite(self, ticket: bytes) -> None:
        """Hand every agent this invitation, and wait until all have joined."""

        def seal_for(each: AgentBootstrap) -> dict[str, object]:
            sealed = seal(ticket, self._keys[each.worker])
            return {"ticket": b64encode(sealed).decode()}

        self._ask_nodes("hand_over", seal_for)

    def hold(self, each: AgentBootstrap) -> Asked:
        """Keep a worker busy until its bound agent has ended; return that as a future."""
        return self._send(each.worker, "hold", {"token": each.token})

    def give_up(self) -> None:
        """End agents that were started; workers that are busy do so when they are idle again."""
        self._take_back()
        # A worker may be gone: agents without invitation end anyway, if later.
        for each in self.bootstraps:
            with suppress(UsageError):
                self._send(each.worker, "give_up", {"token": each.token})
        deadline_s = monotonic() + _GIVE_UP_TIMEOUT_S
        while self._open and (left_s := deadline_s - monotonic()) > 0:
            self._await_one(left_s)

    def _ask_nodes(
        self, function: str, arguments: Callable[[AgentBootstrap], dict[str, object]]
    ) -> dict[Worker, BootstrapReply]:
        """Ask the worker of each node; raises StartFailed naming the nodes that fail."""
        patience_s = max(0.0, self._deadline_s - monotonic()) * _WORKER_SHARE
        found = self._ask(
            function,
            {
                each.worker: {"token": each.token, "patience_s": patience_s, **arguments(each)}
                for each in self.bootstraps
            },
        )
        answers = {
            worker: answer
            if isinstance(answer, BaseException)
            else self._read(worker, answer, BootstrapReply)
            for worker, answer in found.items()
        }
        failures = [
            (each, answers[each.worker])
            for each in self.bootstraps
            if _is_bad(found.get(each.worker))
        ]
        if failures:
            raise StartFailed(describe_failures(failures, self._kind))
        return {w: answer for w, answer in answers.items() if isinstance(answer, BootstrapReply)}

    def _read(self, worker: Worker, answer: object, kind: type[Any]) -> Any:
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError:
            raise UsageError(
                f"{self._kind.name([worker])} was to call a function and gave {answer!r:.80}, "
                "which is not what it returns. submit(worker, function) must return a future of "
                "its result, as Executor.submit does."
            ) from None

    def _ask(
        self, function: str, arguments: Mapping[Worker, Mapping[str, object]]
    ) -> dict[Worker, object]:
        """Call a function on workers; give what each returned, or the exception instead.

        Where one fails, those that are still busy some seconds later are left out.
        """
        for worker, values in arguments.items():
            self._send(worker, function, values)
        self._await_answers()
        answers = {w: _result(asked) for w, asked in self._asked.items() if w not in self._open}
        self._take_back()
        return answers

    def _send(self, worker: Worker, function: str, values: Mapping[str, object]) -> Asked:
        try:
            asked = self._submit(worker, write_call(function, values))
            self._asked[worker] = asked
            self._open.add(worker)
            asked.add_done_callback(lambda asked: self._answers.put((worker, asked)))
        except Exception as error:
            of_owner = f" through this client{self._kind.of_owner}" if self._kind.owner else ""
            raise UsageError(
                f"{self._kind.name([worker])} cannot be asked{of_owner}: "
                f"{type(error).__name__}: {error}. {self._kind.step}."
            ) from error
        return asked

    def _await_one(self, most_s: float) -> None:
        """Wait for one more answer; those of calls that were taken back do not count."""
        with suppress(Empty):
            worker, asked = self._answers.get(timeout=min(most_s, _SLICE_S))
            if self._asked.get(worker) is asked:
                self._open.discard(worker)
                self._is_failing |= _is_bad(_result(asked))

    def _await_answers(self) -> None:
        """Wait for all that were asked, and tell who is busy; raises StartFailed."""
        told_s = monotonic()
        deadline_s = self._deadline_s
        while self._open:
            now_s = monotonic()
            if self._is_failing and deadline_s == self._deadline_s:
                deadline_s = min(deadline_s, now_s + _OTHERS_GRACE_S)
            if now_s >= deadline_s:
                if self._is_failing:
                    return
                waiting = [worker for worker in self._asked if worker in self._open]
                raise StartFailed(describe_silence(waiting, self._timeout_s, self._kind))
            if now_s - told_s >= _QUIET_S:
                told_s = now_s
                waiting = [worker for worker in self._asked if worker in self._open]
                self._say(f"waits for {self._kind.name(waiting)}{self._kind.of_owner}")
            self._await_one(deadline_s - now_s)

    def _take_back(self) -> None:
        """Take back what workers have not begun."""
        for worker in self._open:
            with suppress(Exception):  # a worker that is gone begins nothing
                self._asked[worker].cancel()
        self._asked.clear()
        self._open.clear()
        self._is_failing = False


def _name(bootstrap: AgentBootstrap) -> list[str]:
    """Return how an agent is told its name, where it would choose another one."""
    own = bootstrap.site.hostname
    return [] if bootstrap.name == own else ["--name", bootstrap.name]


def _result(asked: Asked) -> object:
    try:
        return asked.result()
    except BaseException as error:  # noqa: BLE001  (it is the answer)
        return error


def _is_bad(answer: object) -> bool:
    if isinstance(answer, dict):
        return not answer.get("is_good", True)
    return isinstance(answer, BaseException)
