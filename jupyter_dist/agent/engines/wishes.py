"""What ranks find in their environment beside what their user has asked for."""

import os
from collections.abc import Mapping

from jupyter_dist.model.spec.devices import VISIBLE
from jupyter_dist.model.spec.rank_environment import THREAD_VARIABLES


def thread_wishes() -> dict[str, str]:
    """Return what this host's environment says about threads; engines inherit it."""
    return {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ}


def interface_wishes(interface: str) -> dict[str, str]:
    """Make NCCL and gloo use the interface of the data path, unless this host says otherwise."""
    wishes = {"NCCL_SOCKET_IFNAME": f"={interface}", "GLOO_SOCKET_IFNAME": interface}
    if not interface:
        return {}
    return {name: wish for name, wish in wishes.items() if name not in os.environ}


def device_wishes(device: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Let a rank see its own devices only, unless the user has said what ranks see."""
    return {VISIBLE: device} if device and VISIBLE not in asked else {}
