"""A program that drives a cluster as its test tells it: one Python line in, one answer out."""

import subprocess
import sys


class Driver:
    """The program, seen from the test; killed in the end."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self):
        """Its process."""
        return self._process.pid

    def tell(self, line):
        """Have it execute a line; it goes on with the next one when that is done."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def hear(self):
        """Give the next line that it has written."""
        return self._process.stdout.readline().rstrip("\n")

    def do(self, line):
        """Execute a line; gives `ok`, or the error as `ClusterInUse: …`."""
        self.tell(line)
        return self.hear()

    def begin(self, code, **options):
        """Run a cell that says something; gives back when it has."""
        self.tell(f"cluster.run({code!r}, watcher=Begun(), **{options!r})")
        assert self.hear() == "begun"

    def close(self):
        """Kill it."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


class Begun:
    """A watcher that writes when the first output has come."""

    def __init__(self):
        self._has_begun = False

    def on_output(self, ranks, outputs):
        """Write it once."""
        if not self._has_begun:
            self._has_begun = True
            print("begun", flush=True)

    def on_finished(self, result):
        """Nothing is to be done."""

    def on_note(self, text):
        """Nothing is to be done."""

    def on_tick(self):
        """Nothing is to be done."""


def main():
    """Execute what comes."""
    from jupyter_dist import Cluster

    names = {"Cluster": Cluster, "Begun": Begun, "print": print}
    for line in sys.stdin:
        try:
            exec(line, names)
            print("ok", flush=True)
        except Exception as error:  # noqa: BLE001  (the test reads it)
            print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main()
