"""The private part of JAX that hears of preemption: it listens for SIGTERM."""

import sys

from jupyter_dist.frameworks.jax.private_runtime import DISTRIBUTED


def is_listening() -> bool:
    """Tell whether JAX is formed in this process, with its service for preemption.

    It takes SIGTERM at one rank as a notice for all of them, once for each time it is formed.
    """
    state = getattr(sys.modules.get(DISTRIBUTED), "global_state", None)
    return getattr(state, "preemption_sync_manager", None) is not None
