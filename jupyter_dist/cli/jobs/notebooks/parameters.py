"""Parameters of notebooks, as papermill has them: a tagged cell, and one that is put after it.

The tagged cell has the usual values, and says with them which names and kinds of values there are.
"""

import ast
import difflib
import keyword
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jupyter_dist.errors import UsageError

if TYPE_CHECKING:
    from nbformat import NotebookNode

TAG = "parameters"
INJECTED = "injected-parameters"
_CELL_MAGIC = "%%"
_UNKNOWN = object()
"""A usual value that is no literal: any kind of value is accepted."""


def inject_parameters(notebook: "NotebookNode", given: Sequence[tuple[str, str]]) -> None:
    """Put these names and values, as typed, into a notebook; of several with a name the last.

    Where the tagged cell begins with a cell magic, as `%%spmd`, the new one does, too. A cell
    that an earlier run has put in is replaced. Raise UsageError for names and values that the
    notebook does not have.
    """
    if not given:
        return
    from nbformat.v4 import new_code_cell

    place = _find(notebook, TAG)
    before = _find(notebook, INJECTED)
    if place is None:
        raise UsageError(
            f"-p {given[0][0]}: the notebook has no cell with the tag {TAG!r}, which would say "
            "which parameters there are. Add the tag in Jupyter (property inspector) to the "
            "cell that assigns the usual values."
        )
    source = notebook.cells[place].source
    values = read_parameters(usual_values(source), given)
    magic, lines = source.lstrip().partition("\n")[0], ["# Parameters"]
    if magic.startswith(_CELL_MAGIC):
        lines.insert(0, magic)
    lines += [f"{name} = {value!r}" for name, value in values.items()]
    cell = new_code_cell("\n".join(lines), metadata={"tags": [INJECTED]})
    if notebook.nbformat_minor < 5:  # cells had no ids
        cell.pop("id", None)
    if before is not None:
        del notebook.cells[before]
        place -= before < place
    notebook.cells.insert(place + 1, cell)


def usual_values(source: str) -> dict[str, Any]:
    """Return the parameters that a cell assigns, with their values where these are literals."""
    from IPython.core.inputtransformer2 import TransformerManager

    first, _, rest = source.lstrip().partition("\n")
    code = rest if first.startswith(_CELL_MAGIC) else source
    try:
        body = ast.parse(TransformerManager().transform_cell(code)).body
    except SyntaxError as problem:
        raise UsageError(
            f"the cell with the tag {TAG!r} is no Python: line {problem.lineno}: {problem.msg}."
        ) from None
    found: dict[str, Any] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names = [name]
            case _:
                continue
        found |= dict.fromkeys(names, _literal(value))
    return found


def read_parameters(usual: Mapping[str, Any], given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the values that are meant. Raise UsageError naming what is accepted."""
    values = {}
    for name, text in given:
        if name not in usual:
            near = difflib.get_close_matches(name, usual, 1)
            meant = f" Did you mean {near[0]}?" if near else ""
            what = "a name of Python" if keyword.iskeyword(name) else "a parameter of this notebook"
            raise UsageError(
                f"-p {name}: that is not {what}.{meant} Accepted: {', '.join(usual) or 'none'}."
            )
        values[name] = _read(name, text, usual[name])
    return values


def _read(name: str, text: str, usual: Any) -> Any:
    """Read a value as a literal of Python; what is none is text. It has the usual one's kind."""
    value = _literal(text)
    if usual is None or usual is _UNKNOWN:
        return text if value is _UNKNOWN else value
    if isinstance(usual, str):
        return value if isinstance(value, str) else text
    if isinstance(usual, float) and type(value) is int:
        return float(value)
    if value is None or type(value) is type(usual):
        return value
    kind = type(usual).__name__
    said = repr(text) if value is _UNKNOWN or isinstance(value, str) else text
    article = "an" if kind[0] in "aeiou" else "a"
    accepted = "True or False" if isinstance(usual, bool) else f"{article} {kind}, as {usual!r}"
    raise UsageError(f"-p {name} {said}: {name} is {article} {kind}. Accepted: {accepted}.")


def _literal(code: str | ast.expr) -> Any:
    try:
        return ast.literal_eval(code)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _UNKNOWN


def _find(notebook: "NotebookNode", tag: str) -> int | None:
    """Return the place of the first code cell with a tag."""
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "code" and tag in cell.metadata.get("tags", ()):
            return place
    return None
