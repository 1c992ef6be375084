"""How soon a rank that waits on its device is told, and NCCL has let go, when its peer fails."""

import json
import time
from typing import NamedTuple

from ..processes.leftovers import wait_until  # noqa: TID252  (as the conftest beside)


class Cause(NamedTuple):
    """What rank 1 does in the place of its call, and what rank 0 then raises."""

    deed: str
    error: str


CAUSES = {
    "kill": Cause("os.kill(os.getpid(), 9)", "PeerFailed"),
    "raise": Cause("1 / 0", "PeerFailed"),
    "timeout": Cause("time.sleep(6)", "CollectiveTimeout"),
    "interrupt": Cause("time.sleep(60)", "KeyboardInterrupt"),
}
TIMEOUT_S = 2

MEASURED = """\
import json, os, pathlib, time
if rank == 1:
    time.sleep(1)
    pathlib.Path({folder!r}, 'left').write_text(str(time.time()))
    {deed}
elif rank == 0:
    try:
        pathlib.Path({folder!r}, 'waits').touch()
        {wait}
    except BaseException as error:
        raised_s = time.time()
        clique = comm._device.clique
        while clique.handle is not None and time.time() < raised_s + 5:
            time.sleep(0.001)
        time.sleep(0.01)  # the thread that aborts starts right after that
        gone = clique.await_end(30.0)
        figures = dict(raised_s=raised_s, aborted_s=time.time(), gone=gone,
                       error=type(error).__name__)
        pathlib.Path({folder!r}, 'figures').write_text(json.dumps(figures))
        raise
"""


class Told(NamedTuple):
    """What rank 0 has found, in seconds since its peer has failed."""

    error: str
    told_s: float
    aborted_s: float
    is_gone: bool


def measure_loss(ranks, in_background, folder, cause, wait="comm.all_reduce(x).get()"):
    """Let rank 1 of two fail in this way while rank 0 waits; `x` has to be there."""
    limit_s = TIMEOUT_S if cause == "timeout" else 60
    ranks.values(f"comm.timeout_s = {limit_s}")
    code = MEASURED.format(folder=str(folder), deed=CAUSES[cause].deed, wait=wait)
    running = in_background(ranks.run, code, timeout_s=80)
    wait_until((folder / "waits").exists, 30, "rank 0 waits")
    waits_s = time.time()
    wait_until((folder / "left").exists, 30, "rank 1 goes")
    # Read when it is whole: the rank writes it at once.
    since_s = float(wait_until((folder / "left").read_text, 5, "rank 1 has written"))
    if cause == "interrupt":
        since_s = time.time()
        ranks.cluster.interrupt()
    elif cause == "timeout":
        since_s = waits_s + limit_s
    result = running.result(60)
    assert (folder / "figures").exists(), result
    found = json.loads((folder / "figures").read_text())
    told_s, aborted_s = found["raised_s"] - since_s, found["aborted_s"] - since_s
    return Told(found["error"], told_s, aborted_s, found["gone"])
