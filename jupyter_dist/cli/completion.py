"""`jupyter dist completion bash|zsh|fish`: scripts made of the parsers of all commands."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from jupyter_dist.cli.command import Command, write
from jupyter_dist.options.command_options import OptionParser

_CLUSTER, _FILES, _NOTHING = "NAME", ("FILE", "DIR", "PATH"), ""
_NAMES = "jupyter dist list --names 2>/dev/null"
_BASH = """\
# Completion of jupyter-dist; `jupyter dist` has it where nothing else completes `jupyter`.
_jupyter_dist() {{
    local cur="${{COMP_WORDS[COMP_CWORD]}}" prev="${{COMP_WORDS[COMP_CWORD-1]}}" first=1
    [ "${{COMP_WORDS[0]##*/}}" = jupyter ] && first=2
    COMPREPLY=()
    if [ "$first" = 2 ] && [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "dist" -- "$cur")); return
    fi
    [ "$first" = 2 ] && [ "${{COMP_WORDS[1]}}" != dist ] && return
    if [ "$COMP_CWORD" = "$first" ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$cur")); return
    fi
    case "${{COMP_WORDS[first]}} $prev" in
{values}
    esac
    case "$cur" in
        -*) case "${{COMP_WORDS[first]}}" in
{options}
            esac ;;
        *) case "${{COMP_WORDS[first]}}" in
{words}
            esac ;;
    esac
}}
complete -F _jupyter_dist jupyter-dist
complete -p jupyter >/dev/null 2>&1 || complete -F _jupyter_dist jupyter
"""
_ZSH = "autoload -U +X compinit && compinit -i\nautoload -U +X bashcompinit && bashcompinit\n"
_FISH_HEAD = """\
# Completion of jupyter-dist, and of `jupyter dist`.
function __jupyter_dist_is
    set -l words (commandline -opc)
    test (path basename -- $words[1]) = jupyter; and set -e words[1]
    test (count $words) -ge 2; and contains -- $words[2] $argv
end
function __jupyter_dist_first
    set -l words (commandline -opc)
    test (path basename -- $words[1]) = jupyter; and set -e words[1]
    test (count $words) -eq 1; and string match -q '*dist' -- $words[1]
end
complete -c jupyter -n 'test (count (commandline -opc)) -eq 1' -a dist
"""


class _Value(NamedTuple):
    """What can stand somewhere: one of these words, a cluster, a file, or what no shell knows."""

    choices: tuple[str, ...]
    kind: str

    @property
    def in_bash(self) -> str:
        """The commands that offer it."""
        if self.choices:
            return f'COMPREPLY=($(compgen -W "{" ".join(self.choices)}" -- "$cur"))'
        if self.kind == _CLUSTER:
            return f'COMPREPLY=($(compgen -W "$({_NAMES})" -- "$cur"))'
        return 'COMPREPLY=($(compgen -f -- "$cur"))' if self.kind else ":"

    @property
    def in_fish(self) -> str:
        """The arguments of `complete` that offer it."""
        if self.choices:
            return f" -f -a '{' '.join(self.choices)}'"
        if self.kind == _CLUSTER:
            return f" -f -a '({_NAMES})'"
        return " -F" if self.kind else " -f"


def completion(options: argparse.Namespace) -> int:
    """Write a script that completes these commands in a shell: in bash, eval "$(…)"."""
    write(SHELLS[options.shell](options.commands))
    return 0


def add_shell(parser: OptionParser) -> None:
    """Add which shell is meant."""
    parser.add_argument("shell", choices=SHELLS, help="whose completion it is")


def bash_script(parsers: dict[str, OptionParser]) -> str:
    """Return what bash evaluates."""
    values, options, words = [], [], []
    for name, parser in parsers.items():
        flags: list[str] = []
        for action in parser._actions:  # noqa: SLF001  (argparse shows them nowhere else)
            flags += action.option_strings
            if action.option_strings and action.nargs != 0:
                patterns = "|".join(f'"{name} {flag}"' for flag in action.option_strings)
                values.append(f"        {patterns}) {_value_of(action).in_bash}; return ;;")
        offered = f'COMPREPLY=($(compgen -W "{" ".join(flags)}" -- "$cur"))'
        options.append(f"                {name}) {offered} ;;")
        words.append(f"                {name}) {_word_of(parser).in_bash} ;;")
    return _BASH.format(
        commands=" ".join(parsers),
        values="\n".join(values),
        options="\n".join(options),
        words="\n".join(words),
    )


def zsh_script(parsers: dict[str, OptionParser]) -> str:
    """Return what zsh evaluates: it knows the completion of bash."""
    return _ZSH + bash_script(parsers)


def fish_script(parsers: dict[str, OptionParser]) -> str:
    """Return what fish sources."""
    lines = list(_fish_lines(parsers))
    both = [
        line.format(program=program) for program in ("jupyter-dist", "jupyter") for line in lines
    ]
    return _FISH_HEAD + "".join(f"{line}\n" for line in both)


def _fish_lines(parsers: dict[str, OptionParser]) -> Iterator[str]:
    for name, parser in parsers.items():
        told = _quoted(parser.description or "")
        yield f"complete -c {{program}} -f -n __jupyter_dist_first -a {name} -d {told}"
        here = f"complete -c {{program}} -n '__jupyter_dist_is {name}'"
        yield f"{here}{_word_of(parser).in_fish}"
        for action in parser._actions:  # noqa: SLF001
            flags = "".join(
                f" -l {flag[2:]}" if flag.startswith("--") else f" -s {flag[1:]}"
                for flag in action.option_strings
            )
            if flags:
                value = f" -r{_value_of(action).in_fish}" if action.nargs != 0 else ""
                yield f"{here}{flags}{value} -d {_quoted(action.help or '')}"


def _word_of(parser: OptionParser) -> _Value:
    """Return what stands without an option: the first that the shell knows."""
    found = [_value_of(each) for each in parser._actions if not each.option_strings]  # noqa: SLF001
    known = [value for value in found if value.choices or value.kind]
    return known[0] if known else _Value((), _NOTHING)


def _value_of(action: argparse.Action) -> _Value:
    metavar = action.metavar if isinstance(action.metavar, str) else _NOTHING
    is_cluster = metavar == _CLUSTER and action.dest == "name"
    kind = metavar if is_cluster or metavar in _FILES else _NOTHING
    return _Value(tuple(map(str, action.choices or ())), kind)


def _quoted(text: str) -> str:
    """Return a text as one word of fish, with braces as `format` wants them."""
    plain = " ".join(text.split()).replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return "'" + plain.replace("{", "{{").replace("}", "}}") + "'"


SHELLS: dict[str, Callable[[dict[str, OptionParser]], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}
COMMANDS: Sequence[Command] = ((completion, "completion bash", add_shell),)
