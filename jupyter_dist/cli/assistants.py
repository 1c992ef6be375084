"""Commands for AI agents: what they may do, and the tools that they use."""

import argparse

from jupyter_dist.cli.answers import add_json, answer
from jupyter_dist.cli.command import Command, add_name_option, visit, write
from jupyter_dist.options.command_options import OptionParser
from jupyter_dist.options.grant_options import add_grant_options


def allow(options: argparse.Namespace) -> int:
    """Let AI agents act on a cluster for a time, or list what they may and did."""
    from jupyter_dist.cluster.grants.giving import obey_options

    obeyed = obey_options(visit(options), options)
    text = f"{obeyed.text}\n".replace("%dist_", "jupyter dist ")
    return answer(options, obeyed.answer, lambda: text)


def mcp(options: argparse.Namespace) -> int:
    """Serve tools for AI agents on standard input and output, as MCP clients start it."""
    if options.skill:
        from jupyter_dist.mcp.guide import read_skill

        write(read_skill())
        return 0
    from jupyter_dist.mcp.stdio_server import serve

    serve()
    return 0


def _add_mcp_options(parser: OptionParser) -> None:
    parser.add_argument(
        "--skill", action="store_true", help="write how an agent finds why a cell hangs"
    )


COMMANDS: tuple[Command, ...] = (
    (
        allow,
        "allow agent --for 2h --may run,heal --name demo",
        add_grant_options,
        add_name_option,
        add_json,
    ),
    (mcp, "mcp", _add_mcp_options),
)
