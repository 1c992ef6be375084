"""A cell that runs while its notebook goes on: what who watches it is told of its end."""

import queue
import threading

import pytest

from jupyter_dist.cluster.cells.background_cell import BackgroundCell
from jupyter_dist.errors import CellInterrupted, CellRefused, ErrorCode
from jupyter_dist.protocol.messages import CellWaiting, Refused, SubmitCell, WithdrawCell

REQUEST = SubmitCell("r1", "x = 1", None, None, 7)


class Line:
    """A coordinator in which a cell waits until it is withdrawn, or refused."""

    is_far = False

    def __init__(self):
        self.lock = threading.Lock()
        self._answers = queue.Queue()

    def send(self, message):
        if isinstance(message, WithdrawCell):
            self.refuse("interrupted while it waited")
        else:
            self._answers.put(CellWaiting("r1", "In[6] runs"))

    def refuse(self, reason):
        self._answers.put(Refused("r1", ErrorCode.CELL_REFUSED, reason))

    def receive(self, *, waits_out_breaks):
        try:
            yield self._answers.get(timeout=0.1), []
        except queue.Empty:
            return

    def close(self):
        pass


class Watcher:
    """Remembers how it was told of the end."""

    def __init__(self):
        self.told = []

    def on_note(self, text):
        pass

    def on_tick(self):
        pass

    def finish(self, result):
        self.told.append(result)


class Asking(Watcher):
    """Wants to know why there is no result."""

    def give_up(self, problem):
        self.told.append((type(problem), str(problem)))


@pytest.mark.parametrize(
    ("watcher", "is_wanted", "told"),
    [
        (Watcher(), True, None),
        (Asking(), True, (CellInterrupted, "interrupted while it waited")),
        (Asking(), False, (CellRefused, "lost ranks")),
    ],
)
def test_one_that_never_ran_tells_whether_that_was_wanted(watcher, is_wanted, told):
    line = Line()
    cell = BackgroundCell(line, REQUEST, watcher, None)
    if is_wanted:
        cell.cancel()
    else:
        line.refuse("lost ranks")
    with pytest.raises(CellRefused):
        cell.wait(30)
    assert watcher.told == [told]
