"""A watcher that tells tests what ranks have said so far, while a cell runs."""

import threading

from tests.patience import Stopwatch


class Listener:
    """Remembers everything; other threads wait for it."""

    def __init__(self):
        self._news = threading.Condition()
        self._pieces = {}
        self.finished = []
        self.notes = []

    @property
    def text(self):
        """Return by rank what each has said."""
        with self._news:
            return {rank: "".join(pieces) for rank, pieces in self._pieces.items()}

    def on_output(self, ranks, outputs):
        """Remember what ranks said."""
        with self._news:
            said = [output.text for output in outputs]
            for rank in ranks:
                self._pieces.setdefault(rank, []).extend(said)
            self._news.notify_all()

    def on_finished(self, result):
        """Remember how a rank ended."""
        with self._news:
            self.finished.append(result)
            self._news.notify_all()

    def on_note(self, text):
        """Remember a sentence, and when it came."""
        with self._news:
            self.notes.append(text)
            self._news.notify_all()

    def on_tick(self):
        """Nothing is drawn here."""

    def wait_for(self, word, ranks, within_s=10.0):
        """Wait until every one of these ranks has said the word."""
        self._wait(lambda: all(word in self.text.get(rank, "") for rank in ranks), within_s, word)

    def wait_for_note(self, word, within_s=10.0):
        """Wait until a note with this word has come."""
        self._wait(lambda: any(word in note for note in self.notes), within_s, word)

    def _wait(self, condition, within_s, what):
        watch = Stopwatch()
        with self._news:
            while not condition():
                left_s = watch.left_s(within_s)
                assert left_s > 0, f"{what!r} did not come; got {self.text} and {self.notes}"
                self._news.wait(left_s)


def begin(in_background, cluster, code, listener=None, word="here", **options):
    """Run a cell that prints a word, and wait until every rank has; gives its future."""
    listener = listener or Listener()
    future = in_background(cluster.run, code, watcher=listener, **options)
    listener.wait_for(word, ranks=options.get("ranks") or range(cluster.world_size))
    return future
