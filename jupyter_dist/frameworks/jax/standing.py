"""What becomes of JAX on one rank: it stands, or it is owed."""

import msgspec

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.jax.agreement import Settings
from jupyter_dist.frameworks.jax.arguments import Wish
from jupyter_dist.frameworks.jax.relay_process import RelayProcess


class Standing(msgspec.Struct):
    """What has been formed, and what keeps it up."""

    generation: int
    world_size: int
    wish: Wish
    settings: Settings
    relay: RelayProcess
    is_claimed: bool
    """The user has asked for it; a second time is an error, as in JAX."""


class Owed(msgspec.Struct, frozen=True):
    """What stood before, and could not be formed anew: nobody is to take one rank for all of it."""

    settings: Settings
    why: str

    def refusal(self) -> FrameworkError:
        """Give the error of who uses JAX now."""
        return FrameworkError(
            f"JAX was formed with the other ranks before, and could not be formed anew: {self.why} "
            "jax.distributed.initialize() in a cell on all ranks tries again; after "
            "jax.distributed.shutdown() each rank has JAX for itself, with its own devices only."
        )
