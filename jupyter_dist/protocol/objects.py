"""User objects as frames: arrays and other buffers travel as they are, the rest by cloudpickle.

Only ever used between authenticated ends; never inside control messages.
"""

import pickle
from collections.abc import Mapping, Sequence

from jupyter_dist.errors import TransferError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.user_errors import PASSED_ON, name_error, type_name
from jupyter_dist.protocol.codec import Frame


def pack(name: str, value: object) -> list[Frame]:
    """Frames of one object: its pickle, then its buffers (numpy arrays are not copied).

    Raises TransferError naming the object when it cannot be pickled, whatever its own code raises.
    """
    import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    try:
        body: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return [body, *(buffer.raw() for buffer in buffers)]
    except PASSED_ON:
        raise
    except BaseException as error:
        raise TransferError(
            f"{name!r} ({type_name(value)}) cannot be sent: {name_error(error)}. "
            "Send plain data (arrays, numbers, text, containers of them) or make it on the rank."
        ) from error


def unpack(name: str, frames: Sequence[Frame]) -> object:
    """Make the object from its frames; arrays are writable and keep the frames' memory.

    Raises TransferError naming the object when this side cannot rebuild it, whatever its own code
    raises.
    """
    try:
        return pickle.loads(frames[0], buffers=[_writable(frame) for frame in frames[1:]])  # noqa: S301
    except PASSED_ON:
        raise
    except BaseException as error:
        raise TransferError(
            f"{name!r} arrived but cannot be rebuilt here: {name_error(error)}. "
            "The module that defines it must be importable on both sides."
        ) from error


def split_frames(frames: Sequence[Frame], counts: Sequence[int]) -> list[list[Frame]]:
    """Cut the frames of several objects apart."""
    pieces: list[list[Frame]] = []
    start = 0
    for count in counts:
        pieces.append(list(frames[start : start + count]))
        start += count
    return pieces


def raise_problems(problems: Mapping[int, str]) -> None:
    """Raise TransferError for ranks that could not send or take an object, the same said once."""
    if not problems:
        return
    first = problems[min(problems)]
    same = [rank for rank, told in problems.items() if told == first]
    others = sorted(problems.keys() - set(same))
    more = f" ({name_ranks(others)} could not either)" if others else ""
    raise TransferError(f"{name_ranks(same)}: {first}{more}")


def _writable(frame: Frame) -> Frame:
    view = memoryview(frame)
    return bytearray(view) if view.readonly else view
