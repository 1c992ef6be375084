"""What `%dist_push` is asked to push: names of the notebook, and values written on the line."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_dist.errors import UsageError

_WORD = re.compile(r"""(?:[^\s"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')+""")
"""What a shell takes for one word, as it was typed."""


def choose_objects(
    given: Sequence[str], line: str, namespace: Mapping[str, Any]
) -> dict[str, object]:
    """Return the objects by name: `x`, `x,y`, or `x=VALUE`, which Python evaluates here.

    `line` is what was typed: there quotes still stand. Raises UsageError for a name that the
    notebook lacks, and for a value that is no expression or raises.
    """
    as_typed = _values_as_typed(line)
    objects: dict[str, object] = {}
    unknown = []
    for word in given:
        name, equals, value = word.partition("=")
        if equals:
            objects[name] = _evaluate(name, as_typed.get(name, value), namespace)
            continue
        for each in filter(None, word.split(",")):
            if each in namespace:
                objects[each] = namespace[each]
            else:
                unknown.append(each)
    if unknown:
        raise UsageError(
            f"the notebook has no variable named {', '.join(unknown)}; nothing was pushed. "
            "Define it outside %%spmd first, or push a value, as x=5."
        )
    return objects


def _values_as_typed(line: str) -> dict[str, str]:
    """Return the values of a line with their quotes: `x="a b"`, and `"x=a + b"` without them."""
    values = {}
    for word in _WORD.findall(line):
        is_quoted = word[0] in "'\"" and word[-1] == word[0]
        name, equals, value = (word[1:-1] if is_quoted else word).partition("=")
        if equals:
            values[name] = value
    return values


def _evaluate(name: str, value: str, namespace: Mapping[str, Any]) -> object:
    try:
        return eval(value, dict(namespace))  # noqa: S307  (what the person has typed)
    except Exception as problem:  # noqa: BLE001  (of the person's own)
        raise UsageError(
            f"{name}={value} cannot be pushed: {type(problem).__name__}: {problem}. Accepted: a "
            "Python expression; one with blanks is put in quotes, as 'x=a + b'."
        ) from None
