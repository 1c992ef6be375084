"""What a person types after a command, read as values: one grammar for notebooks and terminals."""

import argparse
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jupyter_dist.errors import UsageError
from jupyter_dist.model.bench import OPS
from jupyter_dist.model.bench_plan import DTYPES, read_ops, read_size
from jupyter_dist.model.collective_table import DEFAULT_LAST
from jupyter_dist.model.spec import COMMUNICATOR_KINDS, DEFAULT_RANKS, parse_duration_s


class OptionParser(argparse.ArgumentParser):
    """An argparse parser that does not exit: a mistake is a UsageError naming what is accepted."""

    def __init__(self, *, prog: str, example: str, add_help: bool = False, **more: Any) -> None:
        super().__init__(prog=prog, add_help=add_help, allow_abbrev=False, **more)
        self.example = example

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: what is wrong, what is accepted, an example."""
        forms = ", ".join(_form(action) for action in self._actions if _is_shown(action))
        accepted = f"Options: {forms}." if forms else "It takes no options."
        raise UsageError(f"{self.prog}: {message.rstrip('.')}. {accepted} Example: {self.example}")

    def read(self, line: str) -> argparse.Namespace:
        """Read one line of options, quoted as in a shell; positionals may stand anywhere."""
        try:
            words = shlex.split(line)
        except ValueError as problem:
            self.error(f"{line!r} cannot be split into words ({problem})")
        # Without this argparse writes the usage anew for each line, which nobody sees.
        self.usage = self.usage or self.prog
        return self.parse_intermixed_args(words)

    def table(self) -> str:
        """Write every option with its explanation, one on a line."""
        shown = [action for action in self._actions if _is_shown(action)]
        width = max((len(_form(action)) for action in shown), default=0)
        return "\n".join(f"    {_form(action):<{width}}  {action.help}" for action in shown)

    def complete(self, words: Sequence[str]) -> list[str]:
        """Say what can follow: the values of the last option if it wants one, else options."""
        option = self._option_string_actions.get(words[-1]) if words else None
        if option is not None and option.nargs != 0:
            return [str(choice) for choice in option.choices or ()]
        found: list[str] = []
        for action in self._actions:
            if action.option_strings:
                found += [flag for flag in action.option_strings if flag not in words]
            else:
                found += [str(choice) for choice in action.choices or ()]
        return found


def _is_shown(action: argparse.Action) -> bool:
    return action.dest != "help"


def _form(action: argparse.Action) -> str:
    """Write one option as it is typed: `--comm auto|ring|none`, `-n N`, `NAME…`."""
    value = action.metavar or "|".join(str(choice) for choice in action.choices or ())
    more = "…" if action.nargs == "+" else ""
    flag = action.option_strings[-1] if action.option_strings else ""
    text = " ".join(part for part in (flag, f"{value}{more}" if action.nargs != 0 else "") if part)
    return f"[{text}]" if action.nargs == "?" else text


def add_start_options(parser: argparse.ArgumentParser) -> None:
    """Add everything that can be asked of a new cluster."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-n", type=read_count, metavar="N", help=f"ranks on this machine (default: {DEFAULT_RANKS})"
    )
    _add_places(parser, which)
    _add_installing(parser)
    parser.add_argument("--name", metavar="NAME", help="how to find the cluster again")
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=read_duration_s,
        metavar="S",
        help="give up when it is not ready after this time, as 60 or 2m "
        "(default: 60 s; 10m when hosts join)",
    )
    parser.add_argument(
        "--keep",
        dest="keep_s",
        type=read_duration_s,
        metavar="DURATION",
        help="how long it lives without a notebook, as 90s, 15m or 2h (default: 15m)",
    )
    parser.add_argument(
        "--env",
        type=read_variable,
        nargs="+",
        action="extend",
        metavar="K=V",
        help="environment variables of the ranks",
    )
    parser.add_argument("--cwd", metavar="DIR", help="working directory of the ranks")
    parser.add_argument(
        "--comm", choices=COMMUNICATOR_KINDS, help="what `comm` is in a cell (default: auto)"
    )
    parser.add_argument(
        "--oversubscribe",
        action="store_true",
        help="ranks may share a GPU where there are more of them than GPUs",
    )


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add what says where ranks shall be, and how an agent gets there."""
    _add_places(parser, parser.add_mutually_exclusive_group())


def add_sync_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of code that is to be copied."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a file or folder to import on all hosts; of folder/ what is in it",
    )
    parser.add_argument(
        "--reload", action="store_true", help="load imported modules anew that have changed"
    )
    parser.add_argument(
        "--force", action="store_true", help="copy more than 256 MiB or 20000 files"
    )


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of a benchmark of collectives."""
    parser.add_argument(
        "--ops",
        type=_as_option(read_ops),
        metavar="OP,OP",
        help=f"what to measure: all, or some of {', '.join(OPS)}",
    )
    for flag, dest, text in (
        ("--min", "min_bytes", "smallest size, as 8, 4K or 1MiB (default: 8)"),
        ("--max", "max_bytes", "largest size (default: 64M; 1G with nccl)"),
    ):
        parser.add_argument(flag, dest=dest, type=_as_option(read_size), metavar="SIZE", help=text)
    parser.add_argument(
        "--factor", type=int, metavar="F", help="from one size to the next (default: 8)"
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, help="of what elements arrays are made (default: float32)"
    )
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        help="whether every element of every result is checked (default: yes)",
    )
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=read_duration_s,
        metavar="S",
        help="give up when one collective takes longer, as 30, 30s or 5m (default: 60 s)",
    )


def add_collectives_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of the calls that are to be shown."""
    parser.add_argument(
        "--last",
        type=read_calls,
        metavar="N",
        default=DEFAULT_LAST,
        help=f"so many calls (default: {DEFAULT_LAST})",
    )


def add_timeline_options(parser: argparse.ArgumentParser) -> None:
    """Add where a timeline is to be written."""
    parser.add_argument("file", metavar="FILE", help="what to write, as trace.json")
    parser.add_argument(
        "--force", action="store_true", help="overwrite a file that is no timeline of ours"
    )


def _add_places(parser: argparse.ArgumentParser, which: argparse._MutuallyExclusiveGroup) -> None:
    which.add_argument(
        "--hosts",
        metavar="HOST:N",
        help="where to start how many ranks, as a:8,user@b:8 or node[01-04]:8; without :N one for "
        "each GPU; join:N waits for N hosts that come by themselves",
    )
    which.add_argument(
        "--hostfile", metavar="FILE", help="a host file of Open MPI, MPICH, PBS or Slurm"
    )
    parser.add_argument("--spec", metavar="FILE", help="a specification of the cluster in TOML")
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter or environment on the hosts (default: as here, else python3)",
    )
    parser.add_argument(
        "--ssh", metavar="COMMAND", help="ssh and its options, as 'ssh -F FILE' (default: ssh)"
    )
    parser.add_argument(
        "--interface",
        metavar="NAME|CIDR",
        help="network on which hosts reach this machine, as eth0 or 10.1.0.0/16",
    )
    parser.add_argument(
        "--ports",
        metavar="FIRST-LAST",
        help="ports on which hosts reach this machine, as 47000-47009 (default: free ones)",
    )
    parser.add_argument(
        "--tunnel",
        action="store_true",
        help="hosts reach this machine through their ssh connections only",
    )


def _add_installing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--install",
        action="store_true",
        help="install this jupyter-dist on hosts that have none or another one",
    )
    parser.add_argument(
        "--wheelhouse",
        metavar="DIR",
        help="as --install, but from these wheels, for hosts without internet",
    )


def host_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of `add_host_options` into arguments of `Cluster.start`: those given."""
    given = {
        "hosts": options.hosts,
        "hostfile": options.hostfile,
        "spec": options.spec,
        "python": options.python,
        "ssh": options.ssh,
        "interface": options.interface,
        "ports": options.ports,
        "tunnel": options.tunnel or None,
    }
    return {key: value for key, value in given.items() if value is not None}


def start_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of a new cluster into the arguments of `Cluster.start`: those given."""
    given = {
        "hosts": f"localhost:{options.n}" if options.n else None,
        "install": options.install or None,
        "wheelhouse": options.wheelhouse,
        "name": options.name,
        "timeout_s": options.timeout_s,
        "keep_s": options.keep_s,
        "env": dict(options.env) if options.env else None,
        "cwd": options.cwd,
        "comm": options.comm,
        "oversubscribe": options.oversubscribe or None,
    }
    return host_arguments(options) | {
        key: value for key, value in given.items() if value is not None
    }


def bench_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of a benchmark into arguments of `Cluster.bench`: those given."""
    names = ("ops", "min_bytes", "max_bytes", "factor", "dtype", "check", "timeout_s")
    given = {name: getattr(options, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def read_count(text: str) -> int:
    """Read a number of ranks, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks, 1 or more")
    return int(text)


def read_calls(text: str) -> int:
    """Read a number of calls, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of calls, 1 or more")
    return int(text)


def read_duration_s(text: str) -> float:
    """Read a time of more than 0 s, as `90`, `90s` or `15m`."""
    try:
        seconds = parse_duration_s(text)
    except UsageError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of more than 0 s")
    return seconds


def _as_option(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let argparse say which option it was that could not be read."""

    def read_option(text: str) -> Any:
        try:
            return read(text)
        except UsageError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return read_option


def read_variable(text: str) -> tuple[str, str]:
    """Read `K=V`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not K=V")
    return key, value


def read_identifier(text: str) -> str:
    """Read a name that Python can assign to."""
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a Python name")
    return text
