"""What a framework's part needs of the rank that it lives on; the engine offers it."""

from typing import Protocol

from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.held_time import HeldTime


class RankContext(Protocol):
    """The rank, the cell it runs, and the way to the other ranks."""

    # --- this rank ---

    @property
    def info(self) -> RankInfo:
        """The place of this rank in the present generation."""

    @property
    def generation(self) -> int:
        """Number of the present generation."""

    @property
    def bind_host(self) -> str:
        """Address of this host on the data path, as 10.0.0.2 or fd00::2."""

    @property
    def run_dir(self) -> str:
        """Private directory of this host."""

    @property
    def cell_ranks(self) -> tuple[int, ...]:
        """Ranks that run the present cell, this one in a task of ipyparallel; else empty."""

    @property
    def cell_label(self) -> str:
        """The present cell, or the last one, as `In[3]`."""

    @property
    def is_in_task(self) -> bool:
        """A task of ipyparallel runs, on this rank alone."""

    @property
    def is_checked(self) -> bool:
        """Calls of this cell are to be compared before they begin (`%%spmd --check`)."""

    # --- the others ---

    @property
    def held(self) -> HeldTime:
        """When deadlines stood still, because ranks were in a debugger."""

    def agree(self, claim: str, facts: bytes, timeout_s: float = 60.0) -> dict[int, bytes]:
        """Wait for all ranks of the cluster, and give what each has to say, by rank.

        `claim` is what people read, the same on all ranks: `jax.distributed.initialize()`. Works
        in a cell that runs on all ranks, and while a generation is formed.

        Raises CollectiveTimeout naming who has not come, CollectiveMissed who has finished the
        cell without it, PeerFailed, UsageError in a cell that runs on some ranks only.
        """

    def compare(
        self,
        purpose: str,
        ranks: tuple[int, ...],
        *,
        claim: str,
        agreement: str = "",
        site: str = "",
        timeout_s: float = 60.0,
    ) -> None:
        """Wait until these ranks (this one among them) are at their next call for this purpose.

        Raises CollectiveMismatch on all of them when `claim`, which people read, or `agreement`,
        which nobody does, differs; else what `agree` raises.
        """

    def put(self, key: str, value: bytes) -> None:
        """Keep a value until the generation ends."""

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait until some rank has put this value; raises CollectiveTimeout, PeerFailed."""

    def want_service(self, service: str, at_rank: int = 0, bind: str = "") -> None:
        """Have the agent of a rank's host start a helper process; returns at once.

        `service` is a name of frameworks.services, `bind` an address of that host, or empty for a
        free port of its data path. The same wish of several ranks starts one process; each
        generation gets one of its own.
        """

    def service_address(
        self, service: str, at_rank: int = 0, bind: str = "", timeout_s: float = 60.0
    ) -> str:
        """Wait for the address of such a process; raises FrameworkError with what is in its way."""

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
        """Record that a collective begins; gives the token for `end_call`.

        `ranks` are those that take part, and count it (none: all of the cluster do).
        It is found in %dist_collectives, %dist_timeline and sentences about who waits for whom.
        """

    def end_call(self, token: int, *, is_ok: bool = True) -> None:
        """Record that it has ended."""

    @property
    def site(self) -> str:
        """Where the call that was begun last was made, as `In[3]:7`."""

    def user_namespace(self) -> dict[str, object]:
        """Return the variables of the user: without what we have put there, and without modules."""

    def tell(self, sentence: str) -> None:
        """Tell the user something in the output of the cell (else in that of the next one)."""
