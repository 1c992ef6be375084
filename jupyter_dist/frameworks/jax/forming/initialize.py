"""jax.distributed.initialize in ranks of this cluster: nothing is begun that could end them."""

import contextlib
import os
from collections.abc import Callable, Mapping
from time import monotonic
from types import ModuleType
from typing import Any

import msgspec

from jupyter_dist.errors import CommunicatorError, DistError, FrameworkError, UsageError
from jupyter_dist.frameworks.jax.forming import cluster_env
from jupyter_dist.frameworks.jax.forming.agreement import (
    Agreement,
    Facts,
    Settings,
    find_agreement,
    recall,
)
from jupyter_dist.frameworks.jax.forming.arguments import (
    DEFAULT_TIMEOUT_S,
    Detected,
    InitializeRequest,
    complete,
    explain_place,
    read_wish,
)
from jupyter_dist.frameworks.jax.forming.connection import connect, find_devices, say_goodbye
from jupyter_dist.frameworks.jax.launches.launches import Launches
from jupyter_dist.frameworks.jax.private import runtime as private_runtime
from jupyter_dist.frameworks.jax.private.runtime import PrivateRuntime
from jupyter_dist.frameworks.jax.service import relay_process
from jupyter_dist.frameworks.jax.service.relay_process import RelayProcess
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.frameworks.rank_facts import gather_facts

INITIALIZE = "jax.distributed.initialize()"
SERVICE = "jax"
_REFORM_TIMEOUT_S = 40.0
"""For all of it, with the import on new ranks: before a generation gives up, and blames others."""
_CONNECTING = "connecting JAX"
_FINDING = "finding JAX's devices"


class ActiveRuntime(msgspec.Struct):
    """What has been formed, and what keeps it up."""

    generation: int
    world_size: int
    wish: InitializeRequest
    settings: Settings
    relay: RelayProcess
    is_claimed: bool
    """The user has asked for it; a second time is an error, as in JAX."""


class PendingRuntime(msgspec.Struct, frozen=True):
    """What stood before and could not be formed again: one rank must not pass for all of it."""

    settings: Settings
    why: str

    def refusal(self) -> FrameworkError:
        """Return the error of who uses JAX now."""
        return FrameworkError(
            "JAX was formed with the other ranks before, and could not be formed again: "
            f"{self.why} jax.distributed.initialize() in a cell on all ranks tries again; after "
            "jax.distributed.shutdown() each rank has JAX for itself, with its own devices only."
        )


class Initializer:
    """Forms JAX's mesh with the other ranks, and gives it up."""

    def __init__(self, context: RankContext, launches: Launches) -> None:
        self._context, self._launches = context, launches
        self._runtime: PrivateRuntime | None = None
        self._clusters: ModuleType | None = None
        self._problem: FrameworkError | None = None
        """Why this version of JAX cannot be formed."""
        self._is_problem_told = False
        self.standing: ActiveRuntime | None = None
        self.was_shut_down = False
        """The user wants it so: no cell forms it on its own any more."""
        self.has_cleared = False
        """Devices were found before and forgotten; nobody has said yet what belonged to them."""
        self._used = (0, 0)
        """The generation, and how many of its services have been used up."""
        self.owed: PendingRuntime | None = None

    # --- JAX is being imported ---

    def on_distributed(self, module: ModuleType) -> None:
        """Stand in the place of JAX's initialize and shutdown."""
        try:
            self._runtime = PrivateRuntime(module)
        except FrameworkError as error:
            self._problem = error
            return
        self._runtime.replace(self.initialize, self.shutdown)

    def on_clusters(self, module: ModuleType) -> None:
        """Be found first."""
        self._clusters = module
        context = self._context
        cluster_env.put_first(
            module,
            lambda: context.info,
            lambda timeout_s: context.service_address(SERVICE, timeout_s=timeout_s),
        )

    # --- what users call ---

    def initialize(self, *arguments: Any, **options: Any) -> None:
        """Be jax.distributed.initialize; raises FrameworkError, UsageError, CommunicatorError."""
        runtime = self._require_runtime()
        given = runtime.read(arguments, options)
        if self.standing is not None and self.standing.is_claimed:
            raise FrameworkError(
                f"{INITIALIZE} should only be called once. JAX is formed already, as "
                f"{self.standing.world_size} processes; jax.distributed.shutdown() gives that up."
            )
        if self.standing is not None and given.get("process_id") is None:
            given["process_id"] = self.standing.wish.process_id  # what is left out may stay
        timeout_s = float(given.get("initialization_timeout") or DEFAULT_TIMEOUT_S)
        facts = self._look_at_myself(lambda: self._read(given))
        # A rank that has replaced another one runs setup cells alone, and has JAX by then.
        is_without_others = 0 < len(self._context.cell_ranks) < self._context.info.world_size
        if not (facts.has_this and is_without_others):
            self._form(INITIALIZE, facts, given, timeout_s)
        assert self.standing is not None
        self.standing.is_claimed, self.was_shut_down = True, False

    def shutdown(self) -> None:
        """Be jax.distributed.shutdown: give up what was formed."""
        self.was_shut_down, self.owed = True, None
        self.give_up()

    # --- what the cluster does on its own ---

    def form_in_cell(self) -> None:
        """Form it as the bare call does; one where JAX is missing leaves the error to the cell."""
        if not self._can_import():
            return
        facts = self._look_at_myself(lambda: self._read({}))
        self._form(INITIALIZE, facts, {}, DEFAULT_TIMEOUT_S)

    def _can_import(self) -> bool:
        """Import JAX; where that fails the others are told, and the error is the cell's own."""
        try:
            private_runtime.import_jax()
        except FrameworkError as error:
            missing = Facts(problem=str(error))
            with contextlib.suppress(FrameworkError):  # it is for those that have JAX
                find_agreement(gather_facts(self._context, INITIALIZE, missing, DEFAULT_TIMEOUT_S))
            return False
        if self._runtime is None:
            if not self._is_problem_told:
                self._context.tell(str(self._problem))
            self._is_problem_told = True
            return False
        return True

    def form_again(self, text: str) -> None:
        """Form it with all ranks of a new generation, outside a cell, as it was before."""
        deadline_s = monotonic() + _REFORM_TIMEOUT_S
        settings = msgspec.json.decode(text, type=Settings) if text else Settings()
        try:
            self._form_again(settings, deadline_s)
        except Exception as error:
            self._fall_back()
            self.owed = PendingRuntime(settings, str(error) or type(error).__name__)
            if isinstance(error, DistError):
                raise
            raise FrameworkError(f"JAX could not be formed: {error}") from error

    def _fall_back(self) -> None:
        """Be as if it had never been formed, whatever has been reached."""
        self.owed = None
        self.give_up()
        with contextlib.suppress(Exception):  # why it was not formed is to be told
            if private_runtime.is_backend_made():
                self._forget_devices()

    def _form_again(self, settings: Settings, deadline_s: float) -> None:
        relay_process.prepare()
        given = recall(settings, self._context.info.rank, self._context.info.world_size)
        facts = self._look_at_myself(
            lambda: read_wish(given, {}, self._context.info, self._detect), is_wanted=False
        )
        self._form("forming JAX", facts, given, _left_s(deadline_s))
        # From here on JAX waits for all ranks where nobody can end it, so all must have come.
        self._context.agree(_FINDING, b"", _left_s(deadline_s))
        assert self.standing is not None
        relay = self.standing.relay
        try:
            find_devices(self._require_runtime(), relay, deadline_s, self._look_around)
        except BaseException:
            self.standing = None
            raise

    def refuse_alone(self) -> None:
        """Raise FrameworkError where the devices of this rank would be taken for those of all."""
        if self.standing is None and self.owed is not None:
            raise self.owed.refusal()

    @property
    def why_service_is_gone(self) -> str:
        """Why the service is not there although JAX stands; empty where it is, or JAX does not."""
        return "" if self.standing is None else self.standing.relay.why_gone

    def give_up(self) -> None:
        """Be as if it had never been formed; takes at most 2 s."""
        standing, self.standing = self.standing, None
        client = None if self._runtime is None else self._runtime.take_client()
        if client is not None:
            say_goodbye(client, None if standing is None else standing.relay)

    # --- what all ranks do together ---

    def _form(self, claim: str, facts: Facts, given: Mapping[str, Any], timeout_s: float) -> None:
        deadline_s = monotonic() + timeout_s
        agreement = find_agreement(gather_facts(self._context, claim, facts, timeout_s))
        if agreement.is_standing:
            return
        wish = facts.wish
        assert wish is not None, "who has none has a problem, which has been raised"
        address, relay = self._meet_at_service(agreement, deadline_s)
        self._used = (self._context.generation, self._count_used() + 1)
        connect(
            self._require_runtime(),
            relay,
            complete(given, wish, address),
            deadline_s,
            self._look_around,
        )
        info = self._context.info
        self.standing = ActiveRuntime(
            generation=self._context.generation,
            world_size=info.world_size,
            wish=wish,
            settings=agreement.settings,
            relay=relay,
            is_claimed=False,
        )
        self.owed = None
        self._launches.begin_generation(agreement.rank_of_process)

    def _look_at_myself(
        self, read: Callable[[], InitializeRequest], *, is_wanted: bool = True
    ) -> Facts:
        """Return what this rank brings along; what is in its way is told to all of them."""
        standing = self.standing if is_wanted else None
        try:
            versions = private_runtime.import_jax()
            self._require_runtime()
            wish = read()
            private_runtime.refuse_unknown_platforms()
        except (UsageError, FrameworkError) as error:
            return Facts(problem=str(error), is_usage=isinstance(error, UsageError))
        return Facts(
            wish=wish,
            versions=versions,
            bind_host=self._context.bind_host,
            services=self._count_used(),
            has_this=standing is not None and wish.agrees_with(standing.wish),
        )

    def _read(self, given: Mapping[str, Any]) -> InitializeRequest:
        return read_wish(given, os.environ, self._context.info, self._detect)

    def _detect(self, *arguments: Any) -> Detected:
        assert self._clusters is not None, "JAX has been imported"
        return cluster_env.detect(self._clusters, *arguments)

    def _clear(self) -> None:
        """Make room: what was formed before, and devices that were found without the others."""
        was_formed = self.standing is not None
        self.give_up()
        if not private_runtime.is_backend_made():
            return
        self._forget_devices()
        if not (was_formed or self.was_shut_down) and self._context.cell_ranks:
            self._context.tell(
                f"JAX was used on rank {self._context.info.rank} before it was formed with "
                "the other ranks; it has found its devices again, and arrays of before stay "
                f"readable. Call {INITIALIZE} first to avoid that."
            )

    def _forget_devices(self) -> None:
        self.has_cleared = True
        self._launches.end_mesh()
        private_runtime.clear_backends()

    def _meet_at_service(self, agreement: Agreement, deadline_s: float) -> tuple[str, RelayProcess]:
        """Reach the coordination service, and wait until all ranks do; else nobody begins.

        Return its address, and the way to it.
        """
        address, relay, problem = agreement.coordinator_address, None, ""
        try:
            self._clear()
            found = self._context.service_address(
                SERVICE, agreement.at_rank, agreement.bind, timeout_s=_left_s(deadline_s)
            )
            address = address or found
            relay = RelayProcess(address)
        except CommunicatorError:
            raise  # of which all are told
        except Exception as error:  # noqa: BLE001  (whatever it is, the others are told)
            problem = str(error) or type(error).__name__
            if isinstance(error, FrameworkError):
                problem += explain_place(agreement.bind, os.environ)
        try:
            data = self._context.agree(_CONNECTING, problem.encode(), _left_s(deadline_s))
            if problems := [text.decode() for text in data.values() if text]:
                raise FrameworkError(" ".join(dict.fromkeys(problems)))
        except BaseException:
            if relay is not None:
                relay.close()
            raise
        assert relay is not None, "what is in its way has been raised"
        return address, relay

    def _look_around(self) -> None:
        """Raise what makes waiting for JAX useless."""
        if (failure := self._launches.failure) is not None:
            raise failure.to_error()

    def _count_used(self) -> int:
        generation, used = self._used
        return used if generation == self._context.generation else 0

    def _require_runtime(self) -> PrivateRuntime:
        if self._runtime is None:
            raise self._problem or private_runtime.unknown_version(private_runtime.DISTRIBUTED)
        return self._runtime


def _left_s(deadline_s: float) -> float:
    return max(0.0, deadline_s - monotonic())
