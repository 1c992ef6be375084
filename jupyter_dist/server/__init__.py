"""Jupyter Server extension: clusters of this user, live, whatever their notebooks are doing."""

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Tell Jupyter Server what to load."""
    from jupyter_dist.server.extension import ClusterExtension

    return [{"module": "jupyter_dist.server", "app": ClusterExtension}]
