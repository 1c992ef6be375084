"""Tab completion of the options of our magics and of what they accept."""

from typing import Any, Protocol

from jupyter_dist.magics.command import Shell
from jupyter_dist.magics.options import ATTACH, PARSERS, PUSH
from jupyter_dist.model.command_options import OptionParser

_PARSERS = {parser.prog: parser for parser in PARSERS}


class CompletionContext(Protocol):
    """What IPython tells a completer, as far as it is needed here."""

    token: str
    """The word before the cursor, as far as it is typed."""
    text_until_cursor: str
    """Its line up to the cursor."""


class OptionCompleter:
    """One of IPython's matchers: in lines of our magics nobody else knows what can follow."""

    matcher_api_version = 2
    matcher_identifier = "jupyter_dist.options"
    matcher_priority = 100.0

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.__qualname__ = self.matcher_identifier  # IPython asks for it, as a function has one

    def __call__(self, context: CompletionContext) -> dict[str, Any]:
        """Give the completions, and keep other matchers quiet when there are any."""
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
        return [word for word in self._offer(parser, before) if word.startswith(token)]

    def _offer(self, parser: OptionParser, before: list[str]) -> list[str]:
        offered = parser.complete(before)
        if parser is ATTACH:
            from jupyter_dist.cluster.cluster import Cluster

            return [*offered, *Cluster.running()]
        if parser is PUSH and "--ranks" not in before[-1:]:
            return [*offered, *self._variables()]
        return offered

    def _variables(self) -> list[str]:
        hidden = self._shell.user_ns_hidden
        return [name for name in self._shell.user_ns if name not in hidden and name[0] != "_"]


def install(shell: Shell) -> None:
    """Complete the options of every magic of ours in this shell."""
    shell.Completer.custom_matchers.append(OptionCompleter(shell))


def remove(shell: Shell) -> None:
    """Leave completion as it was."""
    matchers = shell.Completer.custom_matchers
    matchers[:] = [kept for kept in matchers if not isinstance(kept, OptionCompleter)]
