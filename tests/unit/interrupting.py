"""Ctrl-C at each line of some modules, one after the other."""

import signal
import sys


class AtLine:
    """Interrupts the main thread at the n-th line of these files that it comes to, each once."""

    def __init__(self, number, files):
        self._left = number
        self._files = files
        self._seen = set()
        self.place = None
        """Where it was, once it has been."""

    def __enter__(self):
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)

    def __exit__(self, *_error):
        sys.settrace(self._before)

    def _enter_frame(self, frame, _event, _argument):
        return self._look if frame.f_code.co_filename in self._files else None

    def _look(self, frame, event, _argument):
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and self.place is None and place not in self._seen:
            self._seen.add(place)
            self._left -= 1
            if self._left < 0:
                self.place = place
                signal.raise_signal(signal.SIGINT)
        return self._look
