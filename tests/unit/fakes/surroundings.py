"""The surroundings of one rank, whose other ranks say what a test has them say."""

from collections.abc import Callable, Mapping

from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.held_time import HeldTime

Others = Callable[[str, bytes], Mapping[int, bytes]]


class FakeSurroundings:
    """Keeps what it is told; by default the other ranks say the same as this one."""

    def __init__(self, rank: int = 0, world_size: int = 2) -> None:
        self.info = RankInfo(rank, world_size, rank, world_size, 0, "localhost")
        self.generation = 1
        self.bind_host = "127.0.0.1"
        self.run_dir = "/nowhere"
        self.cell_ranks = tuple(range(world_size))
        self.is_checked = False
        self.is_in_task = False
        self.held = HeldTime()
        self.site = "In[1]:1"
        self.cell_label = "In[1]"
        self.values: dict[str, bytes] = {}
        self.claims: list[str] = []
        self.compared: list[tuple[str, tuple[int, ...], str]] = []
        self.wanted: list[str] = []
        self.calls: list[tuple[str, int, str, str, int, bool | None]] = []
        """Operation, sequence, dtype, shape, bytes, and how it ended."""
        self.variables: dict[str, object] = {}
        self.told: list[str] = []
        self.others: Others = lambda _claim, facts: dict.fromkeys(range(world_size), facts)

    def agree(self, claim: str, facts: bytes, timeout_s: float = 60.0) -> dict[int, bytes]:
        self.claims.append(claim)
        brought = {**self.others(claim, facts), self.info.rank: facts}
        return dict(sorted(brought.items()))

    def compare(
        self, purpose: str, ranks: tuple[int, ...], *, claim: str, **_options: object
    ) -> None:
        self.compared.append((purpose, ranks, claim))

    def put(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str, timeout_s: float) -> bytes:
        return self.values[key]

    def want_service(self, service: str) -> None:
        self.wanted.append(service)

    def service_address(self, service: str) -> str:
        return self.values[service].decode()

    def begin_call(
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
        self.calls.append((operation, sequence, dtype, shape, nbytes, None))
        return len(self.calls) - 1

    def end_call(self, token: int, *, is_ok: bool = True) -> None:
        self.calls[token] = (*self.calls[token][:-1], is_ok)

    def user_namespace(self) -> dict[str, object]:
        return self.variables

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)
