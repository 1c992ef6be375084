"""Cells as they are typed, and the code that ranks get of them."""

_SPMD = "%%spmd"


def count_lines_as_typed(line: str, cell: str) -> str:
    """Put a comment where the `%%spmd` line stood: the ranks then count lines as the person does.

    A cell magic must come first, so a cell that begins with one is left as it is.
    """
    body = cell.lstrip()
    if body.startswith("%%"):
        return cell
    # As far in as the code: IPython takes the first line's indentation from every line.
    first_line = next((text for text in cell.splitlines() if text.strip()), "")
    indent = first_line[: len(first_line) - len(first_line.lstrip())]
    return f"{indent}#%%spmd {line}".rstrip() + f"\n{cell}"


def code_of_typed(source: str) -> str:
    """Return the code that ranks get when a cell with this source runs on them.

    Without `%%spmd` that is as `%dist_auto` sends it. A line of options in which IPython replaces
    names (`--ranks {wanted}`) is sent with their values, which are not known here.
    """
    ended = source if source.endswith("\n") else f"{source}\n"
    first, _, body = ended.partition("\n")
    magic, _, options = first.rstrip().partition(" ")
    return count_lines_as_typed(options, body) if magic == _SPMD else ended
