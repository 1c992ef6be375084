"""The front end of a notebook: what it shows of one display, its markup, and a clock."""

import json
from html.parser import HTMLParser


class Notebook:
    """IPython's `display`, and the handle that it returns; `bundles` were shown one after another."""

    def __init__(self):
        self.bundles = []
        self.displays = 0

    def __call__(self, bundle, /, *, raw, display_id):
        assert raw
        assert display_id
        self.displays += 1
        self.bundles.append(bundle)
        return self

    def update(self, bundle, *, raw):
        assert raw
        self.bundles.append(bundle)

    @property
    def html(self):
        return self.bundles[-1]["text/html"]

    @property
    def text(self):
        return self.bundles[-1]["text/plain"]

    @property
    def texts(self):
        return [bundle["text/plain"] for bundle in self.bundles]


class Clock:
    """A clock that stands until a test moves it."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


class StrictNotebook(Notebook):
    """One that takes no more than a notebook can be saved with."""

    def __call__(self, bundle, /, *, raw, display_id):
        self.check(bundle)
        return super().__call__(bundle, raw=raw, display_id=display_id)

    def update(self, bundle, *, raw):
        self.check(bundle)
        super().update(bundle, raw=raw)

    def check(self, bundle):
        json.dumps(bundle, allow_nan=False, ensure_ascii=False).encode()


class Page(HTMLParser):
    """Checks that tags are closed as they were opened; gathers names, cells by row, and text."""

    def __init__(self, markup):
        super().__init__()
        self.open, self.rows, self.text = [], [], []
        self.tags, self.attributes = set(), set()
        self.feed(markup)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if "tr" in self.open:
            self.rows[-1][-1] += data
