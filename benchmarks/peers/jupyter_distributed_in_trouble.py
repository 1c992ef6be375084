"""jupyter-distributed in trouble: its group of kernels, as its proxy kernel uses it."""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as TookTooLong

from jupyter_distributed_peer import JupyterDistributed
from notebook_kernel import SUCCESS, WAIT_S, Ran
from trouble import SURVIVORS, Trouble

OWN_RANK = "import os\nrank = int(os.environ['RANK'])"


class JupyterDistributedInTrouble(JupyterDistributed, Trouble):
    def start(self, n: int) -> float:
        seconds = super().start(n)
        self.run_cell(OWN_RANK)
        return seconds

    def run_cell(
        self,
        code: str,
        interrupts_s: Sequence[float] = (),
        *,
        on_error: str = "",  # noqa: ARG002  (it has no such choice)
    ) -> Ran:
        return self._run(code, interrupts_s, None)

    def run_on_survivors(self, code: str) -> Ran:
        """Name one rank after the other: it has no way to name several."""
        total = Ran(time.time())
        for rank in SURVIVORS:
            ran = self._run(code, (), rank)
            total.said += ran.said
            total.ended_as = ran.ended_as
        total.seconds = time.time() - total.began_s
        return total

    def pids(self) -> list[int]:
        assert self.group is not None
        return [rank.manager.provisioner.pid for rank in self.group.ranks]

    def tell_state(self) -> str:
        status = self._status()
        return json.dumps({"state": status.state, "failure": status.failure}, default=str)

    def knows_of_loss(self) -> bool:
        return self._status().failure is not None

    def replace(self) -> str:
        """It restarts all ranks or none."""
        assert self.group is not None
        self._await(self.group.restart(), WAIT_S)
        self.run_cell(OWN_RANK)
        return "restart of all ranks"

    def _status(self) -> object:
        assert self.group is not None
        return self._await(self.group.status())

    def _run(self, code: str, interrupts_s: Sequence[float], rank: int | None) -> Ran:
        assert self.group is not None
        ran = Ran(time.time())

        def listen(speaker: int, outputs: Sequence[object], _patches: object) -> None:
            ran.add("".join(said.plain_text() + "\n" for said in outputs), f"rank {speaker}")

        for after_s in interrupts_s:
            threading.Timer(after_s, self._interrupt).start()
        cell = self.group.execute(code, on_output=listen, target_rank=rank)
        running = asyncio.run_coroutine_threadsafe(cell, self.loop)
        try:
            done = running.result(WAIT_S)
            ran.ended_as = SUCCESS if done.status == "ok" else done.status
            for said in (said for each in done.ranks for said in each.outputs):
                if said.kind == "error" and said.content.get("ename") == "RankProcessError":
                    ran.add(f"RankProcessError: {said.content['evalue']}\n")
        except TookTooLong:
            running.cancel()
            ran.is_given_up, ran.ended_as = True, "given up"
        except Exception as refusal:
            ran.ended_as = type(refusal).__name__
            ran.add(f"{ran.ended_as}: {refusal}\n")
        ran.seconds = time.time() - ran.began_s
        return ran

    def _interrupt(self) -> None:
        assert self.group is not None
        asyncio.run_coroutine_threadsafe(self.group.interrupt(), self.loop)
