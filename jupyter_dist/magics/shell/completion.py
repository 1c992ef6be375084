"""Tab completion: options of our magics and what they accept, and names of the ranks."""

import builtins
import keyword
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from jupyter_dist.errors import DistError
from jupyter_dist.magics.command import CurrentCluster, Shell
from jupyter_dist.magics.options import ATTACH, CHECKPOINT, PARSERS, PUSH, RESTORE, SPMD
from jupyter_dist.magics.spmd import AutoSpmd
from jupyter_dist.options.command_options import OptionParser

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.protocol.messages import Completions

_SPMD = re.compile(r"\s*%%spmd\b(?P<options>.*)")
_PARSERS = {parser.prog: parser for parser in PARSERS}


class OptionCompleter:
    """One of IPython's matchers: in lines of our magics nobody else knows what can follow."""

    matcher_api_version = 2
    matcher_identifier = "jupyter_dist.options"
    matcher_priority = 100.0

    def __init__(self, shell: Shell, current: CurrentCluster) -> None:
        self._shell = shell
        self._current = current
        self.__qualname__ = self.matcher_identifier  # IPython asks for it, as a function has one

    def __call__(self, context: "CompletionContext") -> dict[str, Any]:
        """Return the completions, and keep other matchers quiet when there are any."""
        from IPython.core.completer import SimpleCompletion

        found = self._find(context.text_until_cursor, context.token)
        completions = [SimpleCompletion(text, type="option") for text in found]
        return {"completions": completions, "suppress": bool(found), "ordered": True}

    def _find(self, text: str, token: str) -> list[str]:
        words = text.split()
        parser = _PARSERS.get(words[0]) if words else None
        if parser is None or text.strip() == words[0] == token:
            return []
        before = words[1:-1] if token and len(words) > 1 else words[1:]
        return [word for word in self._offer(parser, before, token) if word.startswith(token)]

    def _offer(self, parser: OptionParser, before: list[str], token: str) -> list[str]:
        offered = parser.complete(before)
        if parser in (CHECKPOINT, RESTORE) and offered:
            return [*offered, *self._saved_or_to_save(parser, before, token)]
        if before[-1:] == ["--on"]:
            return self._places()
        if parser is ATTACH:
            from jupyter_dist.cluster.cluster import Cluster

            return [*offered, *Cluster.running()]
        if parser is PUSH and "--ranks" not in before[-1:]:
            return [*offered, *self._variables()]
        return offered

    def _places(self) -> list[str]:
        """Name hosts and axes, as `--on` takes them."""
        cluster = self._current.running
        if cluster is None:
            return []
        hosts = [host.name for host in cluster.topology().hosts]
        return [*(f"{name}=" for name in cluster.axes.names), *hosts]

    def _saved_or_to_save(self, parser: OptionParser, before: list[str], token: str) -> list[str]:
        """Name checkpoints; behind one of them what it holds, or what rank 0 has."""
        from jupyter_dist.cluster.checkpoints import list_here

        given = parser.positionals(before)
        if given and parser is CHECKPOINT:
            return self._variables_of_ranks(token)
        where = before[before.index("--dir") + 1] if "--dir" in before[:-1] else None
        seen = [row.seen for row in list_here(where).rows]
        if not given:
            return sorted({each.name for each in seen if each.name})
        return sorted({held for each in seen if each.name == given[0] for held in each.variables})

    def _variables_of_ranks(self, token: str) -> list[str]:
        cluster = self._current.running
        if cluster is None:
            return []
        try:
            names = cluster.complete(token, len(token)).matches
        except DistError:  # it ended at this moment
            return []
        return [
            name
            for name in names
            if name.isidentifier() and not hasattr(builtins, name) and not keyword.iskeyword(name)
        ]

    def _variables(self) -> list[str]:
        hidden = self._shell.user_ns_hidden
        return [name for name in self._shell.user_ns if name not in hidden and name[0] != "_"]


class Place(NamedTuple):
    """Where the cursor stands in code that runs on ranks."""

    code: str
    cursor: int
    """In characters of `code`."""
    options: str = ""
    """What stands behind `%%spmd`."""


class RankCompleter:
    """One of IPython's matchers: in cells that run on ranks, the names of a rank can follow."""

    matcher_api_version = 2
    matcher_identifier = "jupyter_dist.ranks"
    matcher_priority = 50.0

    def __init__(self, current: CurrentCluster, auto: AutoSpmd) -> None:
        self._current = current
        self._auto = auto
        self.__qualname__ = self.matcher_identifier  # IPython asks for it, as a function has one

    def __call__(self, context: "CompletionContext") -> dict[str, Any]:
        """Return what the rank offers instead of the notebook's names; nothing if it is silent."""
        from IPython.core.completer import SimpleCompletion

        place = find_place(context, self._auto)
        found = self._ask(place) if place else None
        if place is None or found is None or found.end != place.cursor:
            return {"completions": [], "suppress": False}
        return {
            "completions": [SimpleCompletion(text) for text in found.matches],
            "suppress": bool(found.matches),
            "ordered": True,
            "matched_fragment": place.code[found.start : found.end],
        }

    def _ask(self, place: Place) -> "Completions | None":
        cluster = self._current.running
        if cluster is None:
            return None
        try:
            return cluster.complete(place.code, place.cursor, _first_rank(place.options, cluster))
        except DistError:  # it ended at this moment
            return None


def find_place(context: "CompletionContext", auto: AutoSpmd) -> Place | None:
    """Find the cursor in the code that ranks would run; None where the notebook would run it."""
    if re.fullmatch(r"\s*%\S*", context.text_until_cursor):
        return None  # magics: the notebook knows more of them
    lines = context.full_text.split("\n")
    head = next((number for number, line in enumerate(lines) if line.strip()), 0)
    spmd = _SPMD.fullmatch(lines[head])
    if spmd is None:
        first = 0 if auto.takes([f"{line}\n" for line in lines]) else len(lines)
    else:
        first = head + 1
    if context.cursor_line < first:
        return None
    above = sum(len(line) + 1 for line in lines[first : context.cursor_line])
    code = "\n".join(lines[first:])
    return Place(code, above + context.cursor_position, spmd["options"] if spmd else "")


def _first_rank(options: str, cluster: "Cluster") -> int:
    """Read which rank to ask; 0 while the options cannot be read, as they are being typed."""
    try:
        given = SPMD.read(options)
        return (cluster.select(given.ranks, given.on) or (0,))[0]
    except DistError:
        return 0


def install(shell: Shell, current: CurrentCluster, auto: AutoSpmd) -> None:
    """Complete the options of our magics, and names of the ranks, in this shell."""
    shell.Completer.custom_matchers.extend(
        [OptionCompleter(shell, current), RankCompleter(current, auto)]
    )


def remove(shell: Shell) -> None:
    """Leave completion as it was."""
    matchers = shell.Completer.custom_matchers
    ours = (OptionCompleter, RankCompleter)
    matchers[:] = [kept for kept in matchers if not isinstance(kept, ours)]
