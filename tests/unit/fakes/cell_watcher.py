"""A watcher of cells that remembers everything in its order."""


class Watcher:
    """`seen` has (ranks, texts) of outputs, (rank, status) of ends, and notes as they are."""

    def __init__(self):
        self.seen = []

    def on_output(self, ranks, outputs):
        self.seen.append((ranks, [output.text for output in outputs]))

    def on_finished(self, result):
        self.seen.append((result.rank, result.status))

    def on_note(self, text):
        self.seen.append(text)

    def on_tick(self): ...
