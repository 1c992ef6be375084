"""What a task says and shows, as clients of ipyparallel get it."""

from collections.abc import Iterable, Iterator
from typing import Any

from jupyter_dist.frameworks.ipyparallel.session import Dict
from jupyter_dist.protocol.messages import Output

Shown = tuple[str, Dict]
"""The type of a message, and its content."""


def as_messages(outputs: Iterable[Output], count: int) -> Iterator[Shown]:
    """Yield the messages for these outputs; `count` is the number of the task."""
    for output in outputs:
        message = _as_message(output, count)
        if message is not None:
            yield message


def _as_message(output: Output, count: int) -> Shown | None:
    shown = {"data": output.data, "metadata": output.metadata}
    transient = {"display_id": output.display_id} if output.display_id else {}
    match output.kind:
        case "stdout" | "stderr":
            return "stream", {"name": output.kind, "text": output.text}
        case "note":
            return "stream", {"name": "stderr", "text": f"{output.text}\n"}
        case "progress":
            return "stream", {"name": "stderr", "text": _draw_bar(output.data)}
        case "value":
            return "execute_result", {**shown, "execution_count": count}
        case "display":
            return "display_data", {**shown, "transient": transient}
        case "update_display":
            return "update_display_data", {**shown, "transient": transient}
        case "clear_output":
            return "clear_output", {"wait": False}
    return None


def _draw_bar(state: dict[str, Any]) -> str:
    """Draw a bar as tqdm does; in place of the one before, until it is closed."""
    done, total = state.get("n", 0), state.get("total")
    name = f"{state['description']}: " if state.get("description") else ""
    share = f"{100 * done / total:.0f}% " if total else ""
    of = f"/{total}" if total else ""
    unit, elapsed_s = state.get("unit") or "it", state.get("elapsed_s", 0.0)
    end = "\n" if state.get("is_closed") else ""
    return f"\r{name}{share}{done}{of} {unit} [{elapsed_s:.0f} s]{end}"
