"""ipyparallel in trouble: a cluster started in a notebook, `%%px`, and the calls of its cluster."""

from collections.abc import Sequence

from contender import Contender, Memory
from ipyparallel_peer import Ipyparallel
from notebook_kernel import SUCCESS, NotebookKernel, Ran
from trouble import LOST, RANKS, SURVIVORS, Trouble

START = """
import tempfile, time, ipyparallel
cluster = ipyparallel.Cluster(n={n}, profile_dir=tempfile.mkdtemp(prefix="profile-"), log_level=40)
client = cluster.start_and_connect_sync()
client.activate()
for rank in client.ids:
    client[rank].push({{"rank": rank}}, block=True)
"""
RESTART = """
try:
    await cluster.restart_engine({lost})
except NotImplementedError as refusal:
    print("restart_engine: NotImplementedError:", refusal)
"""
ADD = """
cluster.start_engines_sync(n=1)
deadline = time.monotonic() + 50
while len(client.ids) < {ranks} and time.monotonic() < deadline:
    time.sleep(0.02)
client.activate()
print("start_engines(n=1): now engines", client.ids)
"""
"""It cannot restart one engine; the next best is another one, which gets a new number."""


class IpyparallelInTrouble(Trouble, Contender):
    packages = Ipyparallel.packages

    def __init__(self) -> None:
        self.notebook = NotebookKernel()

    def start(self, n: int) -> float:
        ran = self.notebook.run(START.format(n=n))
        assert ran.ended_as == SUCCESS, ran.text
        return ran.seconds

    def run(self, code: str, way: str) -> str:  # noqa: ARG002
        return self.run_cell(code).text

    def memory(self) -> Memory:
        raise NotImplementedError

    def run_cell(
        self,
        code: str,
        interrupts_s: Sequence[float] = (),
        *,
        on_error: str = "",  # noqa: ARG002  (it has no such choice)
    ) -> Ran:
        return self.notebook.run(f"%%px\n{code}", interrupts_s)

    def run_on_survivors(self, code: str) -> Ran:
        ranks = ",".join(map(str, SURVIVORS))
        return self.notebook.run(f"%%px --targets {ranks}\n{code}")

    def pids(self) -> list[int]:
        pids: list[int] = self.notebook.value("client[:].apply_sync(__import__('os').getpid)")
        return pids

    def tell_state(self) -> str:
        queues = "{rank: client.queue_status(rank)['queue'] for rank in client.ids}"
        return f"in the queues: {self.notebook.value(queues)}"

    def knows_of_loss(self) -> bool:
        return LOST not in self.notebook.value("client.ids")

    def replace(self) -> str:
        refusal = self.notebook.run(RESTART.format(lost=LOST))
        if not refusal.text:
            return "restart_engine"
        ran = self.notebook.run(ADD.format(ranks=RANKS))
        said = ran.text.strip() if ran.ended_as == SUCCESS else f"start_engines: {ran.ended_as}"
        return f"{refusal.text.strip()}; {said}"

    def stop(self) -> None:
        self.notebook.run("client.close(); cluster.stop_cluster_sync()")
        self.notebook.close()
