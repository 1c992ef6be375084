"""Completion and inspection by the shell's own means, from another thread than its cells'."""

from IPython.core.completer import completions_sorting_key, position_to_cursor

from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.protocol.messages import Completions, Inspection

MOST_MATCHES = 200


def complete(shell: RankShell, code: str, cursor: int) -> Completions:
    """Complete the code at the cursor as the shell would."""
    cursor = min(max(cursor, 0), len(code))
    before = code[:cursor]
    line, column = position_to_cursor(code, cursor)
    # Not `completions`: it warns, and filters of warnings belong to the cell that is running.
    found = shell.Completer._complete(  # noqa: SLF001
        full_text=code, cursor_line=line, cursor_pos=column
    )
    matches: list[tuple[int, str]] = []
    for result in found.values():
        fragment = result["matched_fragment"]
        if not before.endswith(fragment):
            continue
        texts = [each.text for each in result["completions"] if hasattr(each, "text")]
        if not result.get("ordered", False):
            texts.sort(key=completions_sorting_key)
        matches += [(cursor - len(fragment), text) for text in texts]
    # They may begin at different places; on the wire all begin where the first of them does.
    start = min((at for at, _ in matches), default=cursor)
    whole = dict.fromkeys(code[start:at] + text for at, text in matches)
    return Completions(tuple(whole)[:MOST_MATCHES], start, cursor)


def inspect_name(shell: RankShell, name: str, detail: int) -> Inspection:
    """Show what the shell shows for `name?`, or `name??` with more detail."""
    try:
        bundle = shell.object_inspect_mime(name, 1 if detail else 0)  # type: ignore[no-untyped-call]
    except KeyError:
        return Inspection({})
    return Inspection({mime: text for mime, text in bundle.items() if isinstance(text, str)})
