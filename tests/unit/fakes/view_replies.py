"""A view that waits for the answers to what it has asked."""

import threading


class Replies(list):
    """What a view hears; `wait` returns it once so many requests are answered to the end."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def take(self, reply, buffers=None):
        with self._changed:
            self.append(reply)
            self._changed.notify_all()

    def wait(self, finals=1):
        def count():
            return sum(reply["is_final"] for reply in self)

        with self._changed:
            assert self._changed.wait_for(lambda: count() >= finals, 5.0), list(self)
            return list(self)
