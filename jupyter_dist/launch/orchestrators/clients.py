"""Which client each orchestrator is asked through, and whether it is there."""

from importlib.util import find_spec

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.orchestrators.kubernetes_objects import containers_of
from jupyter_dist.model.spec.batch import BATCH_TITLES, BatchSpec

_CLIENTS = {"ray": "ray", "dask": "distributed", "kubernetes": "kubernetes"}
"""Package by orchestrator; the extra of jupyter-dist is called as the orchestrator."""


def check_client(batch: BatchSpec) -> None:
    """Raise UsageError when this Python has no client of the orchestrator."""
    package = _CLIENTS[batch.system]
    if find_spec(package) is None:
        raise UsageError(
            f"{BATCH_TITLES[batch.system]} is asked through the package {package}, which the "
            "Python of this notebook does not have. Install it: "
            f"pip install 'jupyter-dist[{batch.system}]'."
        )
    if batch.system == "kubernetes":
        check_manifest(batch.template)


def check_manifest(text: str) -> None:
    """Raise UsageError for a template that is no manifest with an image."""
    import yaml  # comes with the client

    needed = (
        "Kubernetes needs a manifest of a Job, a Pod or a PodTemplate whose first container has an "
        "image in which jupyter-dist is installed. Name its file with --template FILE"
    )
    if not text:
        raise UsageError(f"template is missing: {needed}.")
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"template is no YAML ({error}). {needed}.") from None
    containers = containers_of(found) if isinstance(found, dict) else []
    if not containers or not isinstance(containers[0], dict) or not containers[0].get("image"):
        raise UsageError(f"template names no image. {needed}.")
