"""How much one meeting may send: all of it goes through the coordinator."""

from jupyter_dist.text.sizes import tell_size

MEETING_BYTES = 256 << 20
"""Over all receivers together."""


def sent_bytes(kind: str, nbytes: int, size: int, rank: int, root: int) -> int:
    """Return how many bytes go out to the others of `size` ranks for the `nbytes` of this one."""
    match kind:
        case "all_gather":
            return nbytes * (size - 1)
        case "broadcast":
            return nbytes * (size - 1) if rank == root else 0
        case "gather":
            return 0 if rank == root else nbytes
        case "scatter":
            return nbytes if rank == root else 0
        case _:
            return 0


def describe_too_large(claim: str, nbytes: int) -> str:
    """Say that a meeting would send too much, and what to do instead."""
    return (
        f"{claim} would send {tell_size(nbytes)} through the coordinator. Accepted: "
        f"{tell_size(MEETING_BYTES)}, counted once for each rank that receives it. Send arrays "
        "with comm.broadcast or comm.all_gather, or write a file to shared storage and send its "
        "path."
    )
