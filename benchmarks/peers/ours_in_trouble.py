"""jupyter-dist in trouble: `%dist_start`, `%%spmd`, `%dist_heal`, and ■ from the notebook."""

from collections.abc import Sequence

from notebook_kernel import SUCCESS, NotebookKernel, Ran
from ours import Ours
from trouble import LOST, SURVIVORS, Trouble

from jupyter_dist import Cluster


class OursInTrouble(Ours, Trouble):
    waits = ("sleep", "collective")

    def __init__(self) -> None:
        super().__init__()
        self.notebook = NotebookKernel()
        self.notebook.run("%load_ext jupyter_dist")

    def start(self, n: int) -> float:
        ran = self.notebook.run(f"%dist_start -n {n}")
        assert ran.ended_as == SUCCESS, ran.text
        (name,) = Cluster.running()
        self.cluster = Cluster.visit(name)
        return ran.seconds

    def run_cell(self, code: str, interrupts_s: Sequence[float] = (), *, on_error: str = "") -> Ran:
        option = f" --on-error {on_error}" if on_error else ""
        return self.notebook.run(f"%%spmd{option}\n{code}", interrupts_s)

    def run_on_survivors(self, code: str) -> Ran:
        ranks = ",".join(map(str, SURVIVORS))
        return self.notebook.run(f"%%spmd --ranks {ranks}\n{code}")

    def pids(self) -> list[int]:
        assert self.cluster is not None
        return [engine.pid for engine in self.cluster.topology().engines]

    def tell_state(self) -> str:
        assert self.cluster is not None
        engines = self.cluster.topology().engines
        return ", ".join(f"{e.rank} {e.state} {e.cell or ''}".strip() for e in engines)

    def knows_of_loss(self) -> bool:
        assert self.cluster is not None
        return self.cluster.status().ranks[LOST] == "lost"

    def replace(self) -> str:
        ran = self.notebook.run("%dist_heal")
        assert ran.ended_as == SUCCESS, ran.text
        return "%dist_heal"

    def stop(self) -> None:
        if self.cluster is not None:
            self.cluster.detach()
            self.cluster = None
            self.notebook.run("%dist_stop")
            self.notebook.close()
