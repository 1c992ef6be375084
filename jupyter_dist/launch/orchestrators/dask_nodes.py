"""Nodes of a Dask scheduler: hosts of its workers, of which one on each is kept busy."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Self

import dask
from distributed import Client

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.orchestrators.worker_job import Loss
from jupyter_dist.launch.workers.agent_starts import Asked
from jupyter_dist.launch.workers.placement import WorkerKind, WorkerLocation
from jupyter_dist.model.spec.batch import JobCause, read_resources
from jupyter_dist.text.plurals import count_of

_CONNECT_TIMEOUT_S = 5.0


class DaskNodes:
    """Hosts with workers, the idlest first."""

    kind = WorkerKind("worker", "Dask", "client.processing() of Dask tells what they do")

    def __init__(self, order: BatchOrder) -> None:
        self._order = order
        self._resources = {
            name: float(amount) for name, amount in read_resources(order.spec).items()
        }
        self.workers: Sequence[str] = ()
        self.losses: SimpleQueue[Loss] = SimpleQueue()

    def __enter__(self) -> Self:
        address = self._order.spec.scheduler or dask.config.get("scheduler-address", "")
        if not address:
            raise StartFailed(
                "no Dask scheduler is named. Name one with --scheduler tcp://HOST:PORT, or in "
                "DASK_SCHEDULER_ADDRESS; a path of its scheduler file is accepted, too."
            )
        where = {"scheduler_file": address} if os.path.isfile(address) else {"address": address}
        try:
            self._client = Client(**where, timeout=_CONNECT_TIMEOUT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise StartFailed(
                f"no Dask scheduler answers at {address}: {error}. Name one that runs with "
                "--scheduler tcp://HOST:PORT; `dask scheduler` starts one."
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close(_CONNECT_TIMEOUT_S)

    def claim(self, timeout_s: float) -> str:
        """Wait until enough hosts have workers."""
        workers = self._client.nthreads()
        hosts = _by_host(workers)
        wanted = self._order.spec.nodes
        if len(hosts) < wanted:
            _await_more(self._client, len(workers), timeout_s)
            return f"{count_of(wanted, 'host')} with workers are asked for, and {len(hosts)} there"
        tasks = self._client.processing()
        load = {host: sum(len(tasks.get(worker, ())) for worker in hosts[host]) for host in hosts}
        chosen = sorted(hosts, key=load.__getitem__)[:wanted]
        self.workers = [worker for host in chosen for worker in hosts[host]]
        for worker in self.workers:
            self._client.subscribe_topic(worker, partial(self._lose, worker))
        return ""

    def node_of(self, worker: str, _site: WorkerLocation) -> str:
        """Take workers with one address for those of one host."""
        return _host_of(worker)

    def submit(self, worker: str, function: Callable[[], object]) -> Asked:
        """Have a worker call a function, once and nowhere else."""
        asked: Asked = self._client.submit(
            function,
            workers=[worker],
            allow_other_workers=False,
            pure=False,
            retries=0,
            resources=self._resources or None,
        )
        return asked

    def watch(self, worker: str, held: Any) -> None:
        """Tell what Dask says of a task that held an agent."""
        try:
            held.result()
        except CancelledError as error:
            self.losses.put(Loss(worker, JobCause.CANCELLED, str(error)))
        except Exception as error:  # noqa: BLE001  (whatever Dask has for it)
            self.losses.put(Loss(worker, JobCause.FAILED, str(error)))
        else:
            self.losses.put(Loss(worker))

    def _lose(self, worker: str, event: tuple[float, Any]) -> None:
        """Hear that a worker is gone: its task would wait for another one at that address."""
        _, said = event
        if isinstance(said, dict) and said.get("action") == "remove-worker":
            self.losses.put(Loss(worker, JobCause.NODE_FAIL, f"Dask has lost its worker {worker}"))


def _await_more(client: Any, workers: int, timeout_s: float) -> None:
    """Wait until there are more workers than these, for so long."""
    with suppress(TimeoutError):
        client.wait_for_workers(workers + 1, timeout=timeout_s)


def _by_host(workers: Iterable[str]) -> dict[str, list[str]]:
    hosts: dict[str, list[str]] = defaultdict(list)
    for worker in sorted(workers):
        hosts[_host_of(worker)].append(worker)
    return hosts


def _host_of(worker: str) -> str:
    """Return `10.0.0.1` of `tcp://10.0.0.1:40321`."""
    return worker.rpartition("//")[2].rpartition(":")[0]
