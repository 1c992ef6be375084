"""A notebook without a browser: a kernel, with a clock on all that its cells show."""

import html
import queue
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.manager import start_new_kernel

WAIT_S = 60.0
"""Nothing is waited for longer than this."""
SUCCESS = "success"
_SLICE_S = 0.05
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")
_TAG = re.compile(r"<[^>]+>")
_BREAK = re.compile(r"</?(div|pre|br|tr|table)\b[^>]*>")


@dataclass(frozen=True)
class Said:
    """One message to the screen."""

    moment_s: float
    """After the beginning of the cell."""
    text: str
    place: str = ""
    """The display that it replaces; empty: it is added."""


@dataclass
class Ran:
    """One cell: how long it took, how it ended, what it showed when."""

    began_s: float
    """Time of day."""
    seconds: float = 0.0
    ended_as: str = SUCCESS
    """The class of the error, or `success`."""
    said: list[Said] = field(default_factory=list)
    is_given_up: bool = False
    """Whether it was still running after WAIT_S, and interrupted by us for that."""

    def add(self, text: str, place: str = "") -> None:
        """Note what is shown now."""
        self.said.append(Said(time.time() - self.began_s, text, place))

    @property
    def text(self) -> str:
        """What stands on the screen in the end."""
        last = {said.place: said for said in self.said if said.place}
        shown = [said.text for said in self.said if not said.place or last[said.place] is said]
        return _visible_text("".join(shown))

    def seconds_until(self, pattern: str) -> float | None:
        """Find out when this was first to be read; None: never."""
        stream = ""
        for said in self.said:
            stream += "" if said.place else said.text
            if re.search(pattern, _visible_text(said.text if said.place else stream)):
                return said.moment_s
        return None

    def last_before(self, word: str) -> str:
        """Give in one line what was shown last before this word was."""
        last = ""
        for said in self.said:
            line = " ".join(_visible_text(said.text).split())
            if word in line:
                break
            last = line or last
        return last


def _visible_text(text: str) -> str:
    """Leave out colours, and what a progress bar has overwritten."""
    return _OVERWRITTEN.sub("", _COLOUR.sub("", text))


class NotebookKernel:
    """A kernel of the Python that runs us; ■ is what the Jupyter server does for it."""

    def __init__(self) -> None:
        self._manager, self._client = start_new_kernel(startup_timeout=WAIT_S)

    def run(self, cell: str, interrupts_s: Sequence[float] = ()) -> Ran:
        """Run a cell to its end, with ■ pressed after so many seconds; gives up after WAIT_S."""
        ran = Ran(time.time())
        request = self._client.execute(cell, stop_on_error=False)
        # Who does not leave at the first ■ is asked again; then the cell is left alone.
        presses = [*interrupts_s, WAIT_S, WAIT_S + 3]
        while not self._take_message(request, ran):
            passed_s = time.time() - ran.began_s
            if passed_s > WAIT_S + 6:
                ran.seconds, ran.ended_as = passed_s, "never"
                return ran
            if passed_s >= presses[0]:
                ran.is_given_up |= presses.pop(0) >= WAIT_S
                self._manager.interrupt_kernel()
        ran.seconds = time.time() - ran.began_s
        reply = self._client.get_shell_msg(timeout=WAIT_S)
        while reply["parent_header"].get("msg_id") != request:
            reply = self._client.get_shell_msg(timeout=WAIT_S)
        if reply["content"]["status"] != "ok":
            ran.ended_as = reply["content"].get("ename", reply["content"]["status"])
        return ran

    def value(self, expression: str) -> Any:
        """Evaluate an expression that gives something to be written in Python."""
        text = self.run(f"print(repr({expression}))").text
        return eval(text)  # it comes from the kernel that we started

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def _take_message(self, request: str, ran: Ran) -> bool:
        """Take one message of the cell, if there is one soon; True when it was the last."""
        try:
            message = self._client.get_iopub_msg(timeout=_SLICE_S)
        except queue.Empty:
            return False
        if message["parent_header"].get("msg_id") != request:
            return False
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            ran.add(content["text"])
        elif kind == "error":
            ran.add("\n".join([*content["traceback"], ""]))
        elif kind in ("display_data", "update_display_data", "execute_result"):
            place = content.get("transient", {}).get("display_id", "")
            ran.add(_words(content["data"]), place)
        return bool(kind == "status" and content["execution_state"] == "idle")


def _words(data: dict[str, Any]) -> str:
    """Give the words that a browser would show."""
    if "text/html" in data:
        return html.unescape(_TAG.sub("", _BREAK.sub("\n", data["text/html"]))) + "\n"
    return str(data.get("text/plain", "")) + "\n"
