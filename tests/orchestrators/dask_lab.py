"""Dask with a scheduler and a worker on each of two addresses of loopback."""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import distributed

from tests.processes.leftovers import wait_until

HOSTS = ("127.0.0.2", "127.0.0.3")


class DaskLab:
    """A scheduler and its workers, which are up inside `with`."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        self._environ = os.environ | {"PYTHONWARNINGS": "ignore", "TMPDIR": self._folder.name}
        self._scheduler = self._run("dask_scheduler", "--host=127.0.0.1", "--port=0")
        file = Path(self._folder.name) / "scheduler.json"
        wait_until(lambda: file.exists() and file.read_text(), 60, "the scheduler is up")
        self._client = distributed.Client(
            scheduler_file=str(file), set_as_default=False, timeout=30
        )
        self.address = self._client.scheduler.address
        self._workers = {}
        self.mend()
        return self

    def __exit__(self, *_):
        self._client.close()
        for process in (*self._workers.values(), self._scheduler):
            process.terminate()
            process.wait(30)
        self._folder.cleanup()

    def mend(self):
        """Start the workers that are not there."""
        for host in HOSTS:
            if host not in self._workers or self._workers[host].poll() is not None:
                words = (f"--host={host}", "--nthreads=1", "--no-nanny")
                self._workers[host] = self._run("dask_worker", *words)
        self._client.wait_for_workers(len(HOSTS), timeout=60)

    def kill(self, host):
        """End the worker of a host at once."""
        self._workers[host].kill()
        self._workers[host].wait(10)
        wait_until(lambda: len(self._client.nthreads()) < len(HOSTS), 30, "Dask has noticed")

    @contextlib.contextmanager
    def busy(self, host):
        """Keep the worker of a host busy."""
        (worker,) = [each for each in self._client.nthreads() if host in each]
        event = distributed.Event(client=self._client)
        task = self._client.submit(event.wait, workers=[worker], pure=False)
        try:
            yield
        finally:
            event.set()
            task.result(10)

    def tasks(self):
        """How many tasks each worker has."""
        return [len(tasks) for tasks in self._client.processing().values()]

    def assert_free(self):
        """Fail when workers are not idle soon."""
        wait_until(lambda: not any(self.tasks()), 15, "no worker of Dask is busy")

    def _run(self, module, *words):
        command = [sys.executable, "-m", f"distributed.cli.{module}", *words, "--no-dashboard"]
        return subprocess.Popen(
            [*command, f"--scheduler-file={self._folder.name}/scheduler.json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environ,
        )
