"""Agents that are on their way and do what a test says."""

from collections.abc import Sequence

from jupyter_dist.launch.launcher import LaunchProgress


class ComingAgents:
    """Those of two hosts, `a` and `b`, to which ssh is on its way since a second before zero."""

    began_s = -1.0

    def __init__(self) -> None:
        self.approaches = {name: LaunchProgress("ssh connects", True) for name in "ab"}

    def describe_waiting(self, hosts: Sequence[str]) -> str:
        return f"waiting for {', '.join(hosts)}"

    def progress(self, host: str) -> LaunchProgress | None:
        return self.approaches.get(host)
