"""The cluster as JAX's own detection sees it: first of all, inside Slurm or Kubernetes too."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.jax.forming.arguments import OWN_METHOD, Detected
from jupyter_dist.model.hosts.rank import RankInfo


def put_first(
    clusters: ModuleType, place: Callable[[], RankInfo], address: Callable[[float], str]
) -> None:
    """Have JAX find this cluster before any that surrounds it.

    `address` gives that of the coordination service, within so many seconds.
    """
    base: Any = getattr(clusters, "ClusterEnv", None)
    known = getattr(base, "_cluster_types", None)
    if base is None or not isinstance(known, list):
        return  # initialize is told all that would be found; only others who ask go without

    class JupyterDistCluster(base):  # type: ignore[misc]
        """Ranks of jupyter-dist."""

        name = OWN_METHOD

        @classmethod
        def is_env_present(cls) -> bool:
            return True

        @classmethod
        def get_coordinator_address(
            cls, timeout_secs: int | None = None, override_coordinator_port: str | None = None
        ) -> str:
            del override_coordinator_port  # it is in the address already
            return address(60.0 if timeout_secs is None else float(timeout_secs))

        @classmethod
        def get_process_count(cls) -> int:
            return place().world_size

        @classmethod
        def get_process_id(cls) -> int:
            return place().rank

        @classmethod
        def get_local_process_id(cls) -> int | None:
            return None  # a rank sees its own devices only

    if JupyterDistCluster in known:  # a class is entered when it is made
        known.remove(JupyterDistCluster)
    known.insert(0, JupyterDistCluster)


def detect(  # noqa: PLR0913, PLR0917  (what JAX's detection takes)
    clusters: ModuleType,
    address: str | None,
    count: int | None,
    process_id: int | None,
    devices: Sequence[int] | None,
    method: str,
    timeout_s: int,
) -> Detected:
    """Have JAX find what is left out, by a method that was asked for; raises FrameworkError."""
    base: Any = getattr(clusters, "ClusterEnv", None)
    find = getattr(base, "auto_detect_unset_distributed_params", None)
    names = [str(one.name) for one in getattr(base, "_cluster_types", ()) if one.name]
    present = [one for one in getattr(base, "_cluster_types", ()) if one.name == method]
    if find is None or not present:
        raise FrameworkError(
            f"cluster_detection_method={method!r} is not one that JAX has here: "
            f"{', '.join(names)}. Leave it out: then this cluster is found."
        )
    if not present[0].is_env_present():
        raise FrameworkError(
            f"cluster_detection_method={method!r} finds nothing here: the ranks were not started "
            "by it. Leave it out: then this cluster is found."
        )
    found: Detected = find(address, count, process_id, devices, method, timeout_s)
    return found
