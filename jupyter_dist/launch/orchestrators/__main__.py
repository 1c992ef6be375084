"""The process that has an orchestrator's client: it asks for nodes, and gives them back."""

import contextlib
import os
import signal
import sys
import threading
import traceback
from functools import partial
from typing import IO

import msgspec

from jupyter_dist.errors import DistError
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.orchestrators.talk import Report, Say, read_order
from jupyter_dist.launch.orchestrators.worker_job import run_on_workers
from jupyter_dist.model.spec.batch import JobCause, JobSeen, JobState, ended

_LAST_MOMENTS_S = 20.0
"""A client that takes longer to give everything back is ended: the coordinator may be gone."""


def main() -> None:
    """Serve one order; see talk.py."""
    order = read_order(sys.stdin.buffer.readline())
    # Clients and what they start write where they like: it goes to the log.
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    say = partial(_say, reports)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    status = 1
    try:
        _run(order, say)
    except KeyboardInterrupt:
        say(Report(ended(JobCause.CANCELLED)))
    except DistError as error:
        problem = str(error)
        failed = JobSeen(JobState.ENDED, cause=JobCause.FAILED)
        say(Report(failed, problem=f"{problem[:1].upper()}{problem[1:]}"))
    except Exception:  # noqa: BLE001  (whatever a client has for us)
        traceback.print_exc()
    else:
        status = 0
    sys.stderr.flush()
    # Threads of clients may still write: at its regular end Python would abort for that.
    os._exit(status)


def _run(order: BatchOrder, say: Say) -> None:
    """Have the orchestrator run the agents, through its own client, which is loaded here."""
    if order.spec.system == "ray":
        from jupyter_dist.launch.orchestrators.ray_nodes import RayNodes

        run_on_workers(RayNodes(order), order, say)
    elif order.spec.system == "kubernetes":
        from jupyter_dist.launch.orchestrators.kubernetes_job import KubernetesJob

        KubernetesJob(order, say).run()
    else:
        from jupyter_dist.launch.orchestrators.dask_nodes import DaskNodes

        run_on_workers(DaskNodes(order), order, say)


def _say(reports: IO[bytes], report: Report) -> None:
    with contextlib.suppress(BrokenPipeError):  # the coordinator was killed
        reports.write(msgspec.json.encode(report) + b"\n")
        reports.flush()


def _end_with_stdin() -> None:
    """Interrupt the main thread when the coordinator wants an end, or is gone."""
    sys.stdin.buffer.read()
    limit = threading.Timer(_LAST_MOMENTS_S, os._exit, (1,))
    limit.daemon = True
    limit.start()
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    signal.pthread_kill(main_thread, signal.SIGINT)


if __name__ == "__main__":
    main()
