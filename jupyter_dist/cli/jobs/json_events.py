"""What a program does on ranks, for programs: one JSON object in a line, as it happens."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from jupyter_dist.protocol.messages import Output, RankFinished
from jupyter_dist.text.lists import Passing

_STREAMS = ("stdout", "stderr")


class JsonEvents:
    """Watches a cell, and writes each event at once; docs/how_to/programs.md has their fields."""

    def __init__(
        self,
        write: Callable[[str], object],
        cluster: str,
        ranks: Sequence[int],
        cell: int | None = None,
    ) -> None:
        """`cell` is the number of the one of a notebook that says it."""
        self._write = write
        self._of = {} if cell is None else {"cell": cell}
        self._tell("began", cluster=cluster, ranks=list(ranks))

    def on_output(self, ranks: Sequence[int], outputs: Sequence[Output]) -> None:
        """Write what these ranks said: text of streams, and MIME bundles of what is displayed."""
        for output in outputs:
            fields = {"ranks": list(ranks), "kind": output.kind}
            if output.kind in _STREAMS:
                self._tell("output", **fields, text=output.text)
            elif output.data:
                self._tell("output", **fields, data=output.data, display_id=output.display_id)

    def on_finished(self, result: RankFinished) -> None:
        """Write how it ended on a rank."""
        error = result.error
        why = {} if error is None else {"error": error.ename, "message": error.evalue}
        self._tell(
            "rank_ended", rank=result.rank, status=result.status, seconds=result.duration_s, **why
        )

    def on_note(self, text: str) -> None:
        """Write a sentence: who is waited for, who is lost."""
        if text:
            self._tell("note", text=str(text), is_passing=isinstance(text, Passing))

    def on_tick(self) -> None:
        """Do nothing: all was written when it came."""

    def finish(self, _result: object, _raised_rank: int | None = None) -> None:
        """Do nothing: the last event of a job comes with its exit status."""

    def _tell(self, event: str, **fields: Any) -> None:
        write_json(self._write, event, **self._of, **fields)


def write_json(write: Callable[[str], object], event: str, **fields: Any) -> None:
    """Write one event as a line."""
    line = msgspec.json.encode({"event": event, **fields}, enc_hook=str)
    write(f"{line.decode()}\n")
