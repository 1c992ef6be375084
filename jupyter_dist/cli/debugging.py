"""`jupyter dist debug`: one address at which debuggers attach to ranks."""

import argparse
import json
import threading

from jupyter_dist.cli.answers import add_json, answer
from jupyter_dist.cli.command import Command, visit
from jupyter_dist.options.command_options import OptionParser, add_name, add_ranks


def _add_listen(parser: OptionParser) -> None:
    parser.add_argument(
        "--listen",
        nargs="?",
        const="127.0.0.1:0",
        required=True,
        metavar="HOST:PORT",
        help="where, on this machine only (default: 127.0.0.1 and a free port)",
    )


def debug(options: argparse.Namespace) -> int:
    """Have VS Code, or another client of the Debug Adapter Protocol, debug ranks."""
    cluster = visit(options)
    over = threading.Event()
    address = cluster.listen_for_debuggers(options.listen, options.ranks, options.on)
    reason = f"`jupyter dist debug` of {cluster.name} has ended"
    try:
        unsubscribe = cluster.watch_topology(
            lambda seen: over.set() if seen.state in ("stopped", "gone") else None, 1.0
        )
        configuration = address.launch_configuration()
        found = {
            "cluster": cluster.name,
            "host": address.host,
            "port": address.port,
            "configuration": configuration,
        }
        text = (
            f"debuggers attach to {cluster.name} at {address.host}:{address.port}, until Ctrl-C or "
            f"its end.\nIn VS Code's launch.json:\n{json.dumps(configuration, indent=2)}\n"
        )
        answer(options, found, lambda: text)
        over.wait()
        unsubscribe()
        reason = f"cluster {cluster.name} has ended"
    finally:
        address.close(reason)
    return 0


COMMANDS: tuple[Command, ...] = (
    (debug, "debug demo --listen --ranks 2", add_name, _add_listen, add_ranks, add_json),
)
