"""What frameworks need of the rank that they live on, offered by its engine."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import msgspec

from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.engine.collectives.control_collectives import ControlCollectives
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.errors import CollectiveTimeout, FrameworkError, UsageError
from jupyter_dist.model.hosts.rank import RankInfo, format_ranks, name_ranks
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.messages import (
    Message,
    Output,
    RequestService,
    ServiceFound,
    service_key,
)

AGREE_TIMEOUT_S = 60.0
_PACKAGES = {"cupy": ("cupy", "cupyx"), "mpi": ("mpi4py",)}
"""Whose code stands between users and the calls that are recorded; of others their own name's."""


@dataclass(eq=False)
class EngineRankContext:
    """What frameworks need of this rank; see frameworks.rank_context.RankContext."""

    info: RankInfo
    bind_host: str
    run_dir: str
    _shell: RankShell
    _collectives: ControlCollectives
    _recorder: CollectiveRecorder
    _post: Callable[[Message], None]
    _show: Callable[[Output], None]
    held: HeldTime
    generation: int = 0
    cell_ranks: tuple[int, ...] = ()
    is_checked: bool = False
    is_in_task: bool = False
    _looked_beyond: set[str] = field(default_factory=set)
    _untold: list[str] = field(default_factory=list)
    """Sentences for which there was no cell yet."""

    # --- the life of cells and generations ---

    def enter_cell(self, ranks: tuple[int, ...], is_checked: bool) -> None:
        """Be in a cell from now on, and tell what waited for one."""
        self.cell_ranks, self.is_checked = ranks, is_checked
        untold, self._untold = self._untold, []
        for sentence in untold:
            self.tell(sentence)

    def enter_task(self) -> None:
        """Be in a task of ipyparallel from now on; its client need not know what is to be told."""
        self.cell_ranks, self.is_in_task = (self.info.rank,), True

    def leave_cell(self) -> None:
        """Be in no cell, and in no task, any more."""
        self.cell_ranks, self.is_checked, self.is_in_task = (), False, False

    @property
    def cell_label(self) -> str:
        """The present cell, or the last one."""
        return f"In[{self._shell.execution_count}]"

    # --- the others ---

    def agree(
        self, claim: str, facts: bytes, timeout_s: float = AGREE_TIMEOUT_S
    ) -> dict[int, bytes]:
        """Wait for all ranks of the cluster, and give what each has to say."""
        everyone = tuple(range(self.info.world_size))
        if not self.cell_ranks:
            return self._agree_by_values(claim, facts, timeout_s)
        if self.cell_ranks != everyone:
            work, advice = "cell", "Run it without --ranks."
            if self.is_in_task:
                work, advice = "task of ipyparallel", "Call it in a cell that runs on all of them."
            raise UsageError(
                f"{claim} needs all {self.info.world_size} ranks, and this {work} runs on "
                f"{name_ranks(self.cell_ranks)} only. {advice}"
            )
        if self.is_in_task:
            return {self.info.rank: facts}
        brought = self._collectives.meet(
            "frameworks", "all_gather", everyone, [facts], claim=claim, timeout_s=timeout_s
        )
        return {rank: bytes(frames[0]) for rank, frames in brought.items()}

    def _agree_by_values(self, claim: str, facts: bytes, timeout_s: float) -> dict[int, bytes]:
        self.put(f"{claim} {self.info.rank}", facts)
        deadline_s = monotonic() + timeout_s
        found = {self.info.rank: facts}
        for rank in range(self.info.world_size):
            if rank not in found:
                try:
                    left_s = max(0.0, deadline_s - monotonic())
                    found[rank] = self.get(f"{claim} {rank}", left_s)
                except CollectiveTimeout as error:
                    raise CollectiveTimeout(
                        f"rank {rank} did not come to {claim} within {timeout_s:g} s."
                    ) from error
        return dict(sorted(found.items()))

    def compare(
        self,
        purpose: str,
        ranks: tuple[int, ...],
        *,
        claim: str,
        agreement: str = "",
        site: str = "",
        timeout_s: float = AGREE_TIMEOUT_S,
    ) -> None:
        """Wait until these ranks are at their next call for this purpose, and compare."""
        self._collectives.meet(
            purpose,
            "barrier",
            ranks,
            claim=claim,
            agreement=agreement,
            site=site,
            timeout_s=timeout_s,
        )

    def put(self, key: str, value: bytes) -> None:
        """Keep a value until the generation ends."""
        self._collectives.put(key, value)

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait until some rank has put this value."""
        return self._collectives.get(key, timeout_s)

    def want_service(self, service: str, at_rank: int = 0, bind: str = "") -> None:
        """Have a helper process started on the host of a rank."""
        self._post(RequestService(self.info.rank, self.generation, service, at_rank, bind))

    def service_address(
        self, service: str, at_rank: int = 0, bind: str = "", timeout_s: float = AGREE_TIMEOUT_S
    ) -> str:
        """Wait for the address of such a process; raises FrameworkError without one."""
        self.want_service(service, at_rank, bind)
        data = self.get(service_key(service, at_rank, bind), timeout_s)
        found = msgspec.msgpack.decode(data, type=ServiceFound)
        if found.problem:
            raise FrameworkError(found.problem)
        return found.address

    # --- what is seen from outside ---

    def begin_call(  # noqa: PLR0913  (a record is all of this)
        self,
        framework: str,
        operation: str,
        sequence: int,
        *,
        dtype: str = "",
        shape: str = "",
        nbytes: int = 0,
        ranks: tuple[int, ...] = (),
    ) -> int:
        """Record that a collective begins."""
        group = f"{format_ranks(ranks or range(self.info.world_size))}~{framework}"
        self._look_beyond(framework)
        signature = Signature(operation, dtype, shape, nbytes=nbytes, group=group)
        return self._recorder.begin(Call(signature, sequence))

    def _look_beyond(self, framework: str) -> None:
        """Have calls recorded with the line of the user, not with one of the framework's own."""
        if framework not in self._looked_beyond:
            self._looked_beyond.add(framework)
            for name in _PACKAGES.get(framework, (framework,)):
                module = sys.modules.get(name)
                for directory in getattr(module, "__path__", ()):
                    self._recorder.pass_through(directory)

    def end_call(self, token: int, *, is_ok: bool = True) -> None:
        """Record that it has ended."""
        self._recorder.end(token, is_ok)

    @property
    def site(self) -> str:
        """Where the call that was begun last was made."""
        return self._recorder.site

    def user_namespace(self) -> dict[str, object]:
        """Return the variables of the user."""
        hidden = self._shell.user_ns_hidden
        return {
            name: value
            for name, value in list(self._shell.user_ns.items())
            if not name.startswith("_")
            and not (name in hidden and hidden[name] is value)
            and not isinstance(value, type(os))
        }

    def tell(self, sentence: str) -> None:
        """Tell the user something in the output of the cell, else in that of the next one."""
        if self.cell_ranks and not self.is_in_task:
            self._show(Output("note", sentence))
        else:
            self._untold.append(sentence)
