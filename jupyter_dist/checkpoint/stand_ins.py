"""What stands in a restored tree where a value could not be given."""

import msgspec


class NotRestored(msgspec.Struct, frozen=True):
    """A value that this rank had no part in when the checkpoint was saved."""

    path: str
    reason: str


class NotLoaded(msgspec.Struct, frozen=True):
    """A pickled object that nobody asked for: to load one runs code that the checkpoint names."""

    path: str
    type_name: str

    @property
    def reason(self) -> str:
        """Say what it is, and what to do to get it."""
        return (
            f"a pickled {self.type_name}: loading one runs code; objects=True (%dist_restore "
            "--objects) does it if you trust who saved"
        )
