"""What a notebook shows of one cell, for tests."""

import json
import threading

from jupyter_dist.views.cell.cell_output import CellOutputView
from tests.patience import Stopwatch


class Page:
    """A notebook's output, as strict about what it takes as a notebook is; others wait for words."""

    def __init__(self):
        self.bundle = {"text/html": "", "text/plain": ""}
        self._news = threading.Condition()

    def __call__(self, bundle, /, *, raw, display_id):
        assert display_id
        self.update(bundle, raw=raw)
        return self

    def update(self, bundle, *, raw):
        """Show something else in its place."""
        assert raw
        json.dumps(bundle, allow_nan=False).encode()
        with self._news:
            self.bundle = bundle
            self._news.notify_all()

    @property
    def html(self):
        """What a browser shows."""
        return self.bundle["text/html"]

    @property
    def text(self):
        """What a terminal shows."""
        return self.bundle["text/plain"]

    def wait_for(self, *words, within_s=10.0):
        """Wait until it shows all these words."""
        watch = Stopwatch()
        with self._news:
            while not all(word in self.html for word in words):
                left_s = watch.left_s(within_s)
                assert left_s, self.html
                self._news.wait(left_s)


def show(cluster, code):
    """Run a cell on all ranks as a notebook would; gives the result and the page."""
    page = Page()
    view = CellOutputView(world_size=cluster.world_size, display=page)
    result = cluster.run(code, watcher=view)
    view.finish(result)
    return result, page
