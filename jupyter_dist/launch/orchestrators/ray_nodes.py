"""Nodes of a Ray cluster: one placement group, with an actor in each of its bundles."""

import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Self

import ray
from ray.exceptions import ActorUnavailableError
from ray.util.placement_group import (
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.orchestrators.worker_job import Loss
from jupyter_dist.launch.workers.agent_starts import Asked
from jupyter_dist.launch.workers.placement import WorkerKind, WorkerLocation
from jupyter_dist.model.spec.batch import JobCause, read_resources

_CONNECT_TIMEOUT_S = 5.0
_REASON = re.compile(r"The actor (?:is dead|died) because (.*)", re.DOTALL)
_MOST_WORDS = 200
_CAUSES = (
    (r"[Pp]lacement group was removed|ray\.kill|cancel", JobCause.CANCELLED),
    (r"out of memory|\bOOM\b|memory pressure", JobCause.OUT_OF_MEMORY),
    (r"node has died|node was terminated|node failure|raylet", JobCause.NODE_FAIL),
)


class RayNodes:
    """A placement group that is spread over as many nodes as agents are wanted."""

    kind = WorkerKind("actor", "Ray", "`ray status` tells what the cluster does")

    def __init__(self, order: BatchOrder) -> None:
        self._order = order
        usual = {"CPU": str(order.cores)}
        given = usual | read_resources(order.spec)
        self._bundle = {name: float(amount) for name, amount in given.items()}
        self._group: Any = None
        self._actors: list[Any] = []
        self.losses: SimpleQueue[Loss] = SimpleQueue()

    def __enter__(self) -> Self:
        address = self._order.spec.scheduler
        _check_reachable(address)
        try:
            ray.init(address=address or "auto", log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            where = f" at {address}" if address else ""
            raise StartFailed(
                f"Ray{where} cannot be used: {_one_line(str(error))}. Name a cluster that runs "
                "with --scheduler ADDRESS, or in RAY_ADDRESS; `ray start --head` starts one."
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # Ray may be gone, and what it gave with it
            for actor in self._actors:
                ray.kill(actor)
            if self._group is not None:
                remove_placement_group(self._group)
        ray.shutdown()

    def claim(self, timeout_s: float) -> str:
        """Wait until the group is placed."""
        if self._group is None:
            bundles = [self._bundle] * self._order.spec.nodes
            self._group = placement_group(
                bundles, strategy="STRICT_SPREAD", name=self._order.job_name
            )
        if self._group.wait(timeout_s):
            self._start_actors()
            return ""
        asked = ", ".join(f"{name} {amount:g}" for name, amount in self._bundle.items())
        nodes = sum(node["Alive"] for node in ray.nodes())
        state = placement_group_table(self._group)["stats"]["scheduling_state"]
        wanted = self._order.spec.nodes
        return f"{state}, {wanted} nodes with {asked} each are asked for, and {nodes} are alive"

    @property
    def workers(self) -> Sequence[int]:
        """The numbers of the actors."""
        return range(len(self._actors))

    def node_of(self, worker: int, _site: WorkerLocation) -> int:
        """Take each for a node of its own: the group is spread."""
        return worker

    def submit(self, worker: int, function: Callable[[], object]) -> Asked:
        """Have an actor call a function."""
        asked: Asked = self._actors[worker].run.remote(function).future()
        return asked

    def watch(self, worker: int, held: Asked) -> None:
        """Tell what Ray says of the end of an actor."""
        try:
            held.result()
        except ActorUnavailableError as error:  # the next call tells whether its node is gone
            self.losses.put(Loss(worker, JobCause.OTHER, _one_line(str(error))))
        except Exception as error:  # noqa: BLE001  (Ray's own, and those of gRPC)
            self.losses.put(read_loss(worker, str(error)))
        else:
            self.losses.put(Loss(worker))

    def _start_actors(self) -> None:
        others = dict(self._bundle)
        cpus, gpus = others.pop("CPU"), others.pop("GPU", 0.0)
        memory = others.pop("memory", None)
        make = ray.remote(_actor_class())
        for index in range(self._order.spec.nodes):
            place = PlacementGroupSchedulingStrategy(
                placement_group=self._group, placement_group_bundle_index=index
            )
            options = {"num_cpus": cpus, "num_gpus": gpus, "resources": others}
            if memory is not None:
                options["memory"] = memory
            self._actors.append(make.options(scheduling_strategy=place, **options).remote())


def read_loss(worker: int, said: str) -> Loss:
    """Read what Ray says of an actor that has died."""
    found = _REASON.findall(said)
    words = _one_line(found[-1] if found else said)
    cause = next((c for text, c in _CAUSES if re.search(text, words)), JobCause.FAILED)
    return Loss(worker, cause, words)


def _actor_class() -> type:
    """Return a class that travels by value: workers may not have this package."""

    class Node:
        def run(self, function: Callable[[], object]) -> object:
            return function()

    return Node


def _check_reachable(address: str) -> None:
    """Raise StartFailed where nothing listens: Ray's client would try for a minute, and crash."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise StartFailed(
            f"no Ray cluster can be reached at {address}: {error}. Name one that runs with "
            "--scheduler ADDRESS; `ray status` tells its address."
        ) from error


def _one_line(text: str) -> str:
    words = " ".join(text.split()).rstrip(".")
    return words if len(words) <= _MOST_WORDS else f"{words[: _MOST_WORDS - 1]}…"
