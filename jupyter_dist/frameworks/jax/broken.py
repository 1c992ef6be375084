"""What errors of collectives mean: one broke off, or ranks have launched different programs."""

from jupyter_dist.errors import CollectiveMismatch
from jupyter_dist.model.user_errors import causes, error_text

_KINDS = frozenset({"JaxRuntimeError", "XlaRuntimeError", "ValueError", "RuntimeError"})
"""By name: JAX need not be here. Depending on the operation gloo's errors become one of these."""
_WORDS = ("Gloo ", "NCCL ")
_MOST_CHARACTERS = 200
_ODD_ONE_OUT = " with other arguments"
"""How the coordinator tells calls apart that read the same."""


def find_broken(error: BaseException) -> BaseException | None:
    """Give the error of a broken collective that this one is, or comes from."""
    for each in causes(error):
        name = type(each).__name__
        if name in _KINDS and any(word in error_text(each) for word in _WORDS):
            return each
    return None


def shorten(error: BaseException) -> str:
    """Give the first line of such an error, without the status code before it."""
    first = error_text(error).strip().partition("\n")[0].strip()
    text = first.removeprefix("UNKNOWN: ").rstrip(".") or type(error).__name__
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"


def tell_programs_apart(error: CollectiveMismatch) -> CollectiveMismatch:
    """Say it in JAX's words when two calls read the same and are not."""
    if not error.call.endswith(_ODD_ONE_OUT):
        return error
    call = error.call.removesuffix(_ODD_ONE_OUT) + ", compiled to another program"
    one, rest = str(error).split(" called ", 1)
    other = rest.rsplit(", but ", 1)[1].split(" called ", 1)[0]
    return CollectiveMismatch(error.rank, call, error.peer, error.peer_call, (one, other))
