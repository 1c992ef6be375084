"""Agents of ours on the hosts of an ipyparallel cluster that runs, started by its own engines.

The client is the user's: ipyparallel itself is not imported here. There are three rounds: every
engine says where it is; one of each host starts an agent, which says a public key; the invitation
goes there sealed with it, because ipyparallel keeps requests in its hub, and sends them over the
network as they are.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from jupyter_dist.cluster.ipyparallel.engine_locations import (
    AgentBootstrap,
    BootstrapReply,
    EngineLocation,
    check_pythons,
    describe_failures,
    describe_silence,
    name_engines,
    plan_footholds,
    read_readiness,
    write_call,
)
from jupyter_dist.cluster.spec.host_list import hosts_of_job
from jupyter_dist.cluster.spec.specification import specify
from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.launch.files.join_file import join_path, read_join_file
from jupyter_dist.launch.sealing import seal
from jupyter_dist.model.spec.cluster_spec import JOIN, MOST_SLOTS, ClusterSpec, HostSpec, check_spec
from jupyter_dist.options.start_options import JobOptions, StartOptions
from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.text.lists import name_some

_DEFAULT_TIMEOUT_S = 60.0
"""For a start; nobody has to act first, as elsewhere where agents join."""
_SLICE_S = 0.1
_QUIET_S = 1.0
"""Engines that take longer are busy: that is told."""
_ENGINE_SHARE = 0.75
"""Of the time that is left: an engine must be able to say what its agent has said."""
_OTHERS_GRACE_S = 3.0
"""After one host failed, others may fail as well for so long: all of them are told at once."""
_GIVE_UP_TIMEOUT_S = 3.0
_THEIRS = ("python", "ssh", "tunnel", "install", "wheelhouse", *JobOptions.__annotations__)
"""Wishes about how an agent gets onto a host, which their engines decide."""

OnProgress = Callable[[StartProgress], None]


class AgentBootstraps:
    """Brings an agent onto each host of a running ipyparallel cluster, or leaves nothing there."""

    def __init__(self, client: Any, draft: ClusterSpec, on_progress: OnProgress | None) -> None:
        self._client = client
        self._draft = draft
        self._deadline_s = monotonic() + draft.timeout_s
        self._on_progress = on_progress
        self._asked: dict[int, Any] = {}
        self._bootstraps: tuple[AgentBootstrap, ...] = ()
        self._keys: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _stack: object) -> None:
        if error is not None:
            self._give_up()

    def find(self, slots: int) -> ClusterSpec:
        """Ask every engine where it is; give the cluster that goes there. See plan_footholds."""
        answers = self._ask("look", {engine: {} for engine in self._engines()})
        failed = [
            f"engine {e}: {found}"
            for e, found in answers.items()
            if isinstance(found, BaseException)
        ]
        if failed:
            raise StartFailed(
                f"engines of ipyparallel could not say where they are. {'; '.join(failed)}"
            )
        sites = {
            engine: msgspec.convert(found, EngineLocation) for engine, found in answers.items()
        }
        check_pythons(sites)
        self._bootstraps = plan_footholds(sites, slots)
        hosts = hosts_of_job(JOIN, len(self._bootstraps), HostSpec(""))
        return check_spec(replace(self._draft, hosts=hosts))

    def begin(self) -> None:
        """Start an agent on each host; raises StartFailed naming those without, and why."""
        names = name_some([each.site.hostname for each in self._bootstraps])
        self._say(f"ipyparallel starts agents on {names}")
        method = ("--start-method", self._draft.start_method)
        answers = self._ask_footholds(
            "begin",
            lambda each: {"words": ["--slots", str(each.slots), *method], "visible": each.visible},
        )
        for each in self._bootstraps:
            self._keys[each.engine] = read_readiness(each, answers[each.engine]).public_key

    def bring(self, cluster: str) -> None:
        """Hand every agent its invitation to this cluster, and wait until all have joined."""
        # The coordinator counts its time from its own beginning, too.
        self._deadline_s = monotonic() + self._draft.timeout_s
        ticket = msgspec.json.encode(read_join_file(join_path(cluster)))

        def seal_for(each: AgentBootstrap) -> dict[str, object]:
            sealed = seal(ticket, self._keys[each.engine])
            return {"ticket": b64encode(sealed).decode()}

        self._ask_footholds("hand_over", seal_for)

    def _engines(self) -> list[int]:
        try:
            engines = sorted(self._client.ids)
        except (AttributeError, TypeError):
            raise UsageError(
                f"{self._client!r} is no client of ipyparallel. Give what ipyparallel.Client(), or "
                "connect_client_sync() of an ipyparallel.Cluster, gives."
            ) from None
        if not engines:
            raise UsageError(
                "this ipyparallel cluster has no engines. Start some first; "
                "client.wait_for_engines(n) waits until n of them are there."
            )
        return engines

    def _ask_footholds(
        self, function: str, arguments: Callable[[AgentBootstrap], dict[str, object]]
    ) -> dict[int, BootstrapReply]:
        """Ask the engine of each host; raises StartFailed naming the hosts that fail."""
        patience_s = max(0.0, self._deadline_s - monotonic()) * _ENGINE_SHARE
        found = self._ask(
            function,
            {
                each.engine: {"token": each.token, "patience_s": patience_s, **arguments(each)}
                for each in self._bootstraps
            },
        )
        answers = {
            engine: answer
            if isinstance(answer, BaseException)
            else msgspec.convert(answer, BootstrapReply)
            for engine, answer in found.items()
        }
        failures = [
            (each, answers[each.engine])
            for each in self._bootstraps
            if _is_bad(found.get(each.engine))
        ]
        if failures:
            raise StartFailed(describe_failures(failures))
        return {e: answer for e, answer in answers.items() if isinstance(answer, BootstrapReply)}

    def _ask(
        self, function: str, arguments: Mapping[int, Mapping[str, object]]
    ) -> dict[int, object]:
        """Call a function on engines; give what each returned, or the exception instead.

        Where one fails, those that are still busy some seconds later are left out.
        """
        for engine, values in arguments.items():
            self._asked[engine] = self._send(engine, function, values)
        self._await_answers()
        answers = {
            engine: result.get(return_exceptions=True)
            for engine, result in self._asked.items()
            if result.ready()
        }
        self._abort()
        return answers

    def _send(self, engine: int, function: str, values: Mapping[str, object]) -> Any:
        try:
            return self._client[engine].apply_async(eval, write_call(function, values))
        except (OSError, RuntimeError, IndexError) as error:
            raise UsageError(
                f"engine {engine} cannot be asked through this client of ipyparallel: {error}. "
                "Connect a new client, and wait for its engines."
            ) from error

    def _await_answers(self) -> None:
        """Wait for all that were asked, and tell who is busy; raises StartFailed."""
        deadline_s = self._deadline_s
        told_s = monotonic()
        is_failing = False
        while waiting := [e for e, result in sorted(self._asked.items()) if not result.ready()]:
            now_s = monotonic()
            if not is_failing and self._has_failed():
                is_failing, deadline_s = True, min(deadline_s, now_s + _OTHERS_GRACE_S)
            if now_s >= deadline_s:
                if is_failing:
                    return
                raise StartFailed(describe_silence(waiting, self._draft.timeout_s))
            if now_s - told_s >= _QUIET_S:
                told_s = now_s
                self._say(f"waits for {name_engines(waiting)} of ipyparallel")
            self._client.wait([self._asked[engine] for engine in waiting], timeout=_SLICE_S)

    def _has_failed(self) -> bool:
        ready = [result for result in self._asked.values() if result.ready()]
        return any(_is_bad(result.get(return_exceptions=True)) for result in ready)

    def _say(self, stage: str) -> None:
        if self._on_progress is not None:
            self._on_progress(StartProgress("", stage, 0, 0))

    def _abort(self) -> None:
        """Take back what engines have not begun."""
        for engine, result in self._asked.items():
            if not result.ready():
                with suppress(IndexError):  # an engine that is gone begins nothing
                    self._client.abort([result], targets=engine, block=False)
        self._asked.clear()

    def _give_up(self) -> None:
        """End agents that were started; engines that are busy do so when they are idle again."""
        ended = []
        # The client is closed, or an engine gone: agents without invitation end anyway, if later.
        with suppress(OSError, RuntimeError):
            self._abort()
        for each in self._bootstraps:
            with suppress(UsageError):
                ended.append(self._send(each.engine, "give_up", {"token": each.token}))
        with suppress(OSError, RuntimeError):
            self._client.wait(ended, timeout=_GIVE_UP_TIMEOUT_S)


def _is_bad(answer: object) -> bool:
    if isinstance(answer, dict):
        return not answer.get("is_good", True)
    return isinstance(answer, BaseException)


def draft_cluster(slots: int, given: StartOptions) -> ClusterSpec:
    """Check everything that a start is asked for, before anybody is asked; raises UsageError."""
    refused = [name for name in _THEIRS if given.get(name) is not None]
    if refused:
        raise UsageError(
            f"{', '.join(refused)}: not accepted together with ipyparallel, whose engines start "
            "our agents with their own Python. Leave it out."
        )
    if not isinstance(slots, int) or not 0 <= slots <= MOST_SLOTS:
        raise UsageError(
            f"slots {slots!r} are not accepted. Give 1-{MOST_SLOTS} ranks for each host, or 0 for "
            "as many as ipyparallel has engines there."
        )
    if given.get("timeout_s") is None:
        given = {**given, "timeout_s": _DEFAULT_TIMEOUT_S}
    return specify(f"{JOIN}:1", **given)
