"""Requests that are answered without the main thread."""

import signal
from collections.abc import Callable

from jupyter_dist.frameworks.ipyparallel.session import Dict, refusal
from jupyter_dist.frameworks.ipyparallel.tasks import Request
from jupyter_dist.version import __version__


def is_interrupt(request: Request) -> bool:
    """Tell whether it asks for SIGINT, by whatever name."""
    if request.kind == "interrupt":
        return True
    return request.kind == "signal" and _signal_number(request) == signal.SIGINT


def _signal_number(request: Request) -> int:
    asked = request.content.get("sig")
    if isinstance(asked, str):
        return int(getattr(signal, asked, -1))
    return int(asked) if isinstance(asked, int) else -1


def _refuse_signal(request: Request) -> Dict:
    asked = request.content.get("sig")
    return refusal(
        f"an engine of jupyter-dist takes no signal {asked!r}. Accepted: SIGINT. A rank ends with "
        "its cluster (%dist_stop), or is replaced (%dist_heal)."
    )


def _describe_kernel(request: Request) -> Dict:
    del request
    return {
        "status": "ok",
        "protocol_version": "5.3",
        "implementation": "jupyter-dist",
        "implementation_version": __version__,
        "language_info": {"name": "python", "mimetype": "text/x-python", "file_extension": ".py"},
        "banner": "A rank of jupyter-dist",
        "help_links": [],
    }


def _describe_history(request: Request) -> Dict:
    del request
    return {"status": "ok", "history": []}


def _describe_comms(request: Request) -> Dict:
    del request
    return {"status": "ok", "comms": {}}


_ANSWERS: dict[str, Callable[[Request], Dict]] = {
    "kernel_info": _describe_kernel,
    "history": _describe_history,
    "comm_info": _describe_comms,
    "signal": _refuse_signal,
}


def answer_at_once(request: Request) -> Dict:
    """Give what is answered to this request; one that is not known is refused."""
    answer = _ANSWERS.get(request.kind)
    if answer is not None:
        return answer(request)
    return refusal(f"an engine of jupyter-dist does not answer {request.kind!r} requests")
