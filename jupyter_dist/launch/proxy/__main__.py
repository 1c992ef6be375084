"""The process on this machine that stands for a coordinator on another one.

    python -P -m jupyter_dist.launch.proxy

The order comes as one JSON line on stdin, and it reports on stdout as a coordinator does. From then
on clients find the cluster by it, and it lives as long as the coordinator: SIGINT ends both, and
SIGTERM only this process.
"""

import contextlib
import faulthandler
import os
import shutil
import signal
import sys
from pathlib import Path

import msgspec

from jupyter_dist.errors import ClusterExists, DistError
from jupyter_dist.launch.files.connection_file import StartReport
from jupyter_dist.launch.processes.private_dir import make_memory_dir
from jupyter_dist.launch.processes.starter import redirect_output, tell_starter
from jupyter_dist.launch.proxy.conversation import ProxyOrder
from jupyter_dist.launch.proxy.proxy import Proxy
from jupyter_dist.model.spec.cluster_spec import JOIN


def main() -> None:
    """Stand for one coordinator, from its start or a look for it to its end."""
    os.umask(0o077)
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ProxyOrder)
    folder = make_memory_dir()  # its path is short, as those of sockets have to be
    try:
        _stand_in(order, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stand_in(order: ProxyOrder, folder: Path) -> None:
    log_path = folder / "proxy.log"
    proxy = Proxy(order, folder, log_path)
    with contextlib.closing(proxy), log_path.open("ab", buffering=0) as log:
        redirect_output(log)
        faulthandler.register(signal.SIGUSR1)  # where a start that takes too long is
        signal.signal(signal.SIGINT, lambda *_: proxy.end())
        signal.signal(signal.SIGTERM, lambda *_: proxy.leave())

        def on_stage(report: StartReport) -> None:
            tell_starter(msgspec.structs.replace(report, log_path=str(log_path)))

        if order.host.launcher != JOIN:  # a job says on its own what it waits for
            on_stage(StartReport(stage=f"connecting to {order.host.name} by ssh"))
        try:
            info = proxy.open(on_stage)
        except (OSError, DistError) as error:
            is_name_taken = isinstance(error, ClusterExists)
            tell_starter(StartReport(problem=str(error), is_name_taken=is_name_taken))
            return
        tell_starter(StartReport(info))
        proxy.serve()


if __name__ == "__main__":
    main()
