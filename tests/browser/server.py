"""A real Jupyter server for the tests, with our extensions in it, and its clean end."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

import psutil

from tests.patience import Stopwatch, firm_s

START_TIMEOUT_S = 40.0
END_TIMEOUT_S = 10.0
_POLL_S = 0.05
_ROOT = Path(__file__).parents[2]
_PANEL = _ROOT / "jupyter_dist" / "labextension"
_SERVER_CONFIG = _ROOT / "jupyter-config"
_MARK = "JD_TEST_JUPYTER"
"""Set for the server and thereby for all that it starts, so that nothing of it is overlooked."""
_FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTER_PATH": "share",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
    "TMPDIR": "tmp",
}
_NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}
# Else each page has the server ask yarn whether the application is to be built again.
_NO_BUILD = {"page_config_data": {"buildCheck": False}}
# What is started, where it shows a notebook, and the option that shows its application to tests.
_KINDS = {
    "jupyterlab": ("lab/tree/", "--LabApp.expose_app_in_browser=True"),
    "notebook": ("notebooks/", "--JupyterNotebookApp.expose_app_in_browser=True"),
}


class JupyterServer:
    """A server of its own: nothing of the person's Jupyter is read or written.

    It has the panel and the server extension as they stand in this working tree, also where they
    were installed at another time; without node there is no panel, and `has_panel` is False.
    """

    def __init__(self, folder: Path, kind: str = "jupyterlab") -> None:
        self.kind = kind
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(parents=True)
        self._folder = folder
        self._token = secrets.token_hex(16)
        self._env = dict(os.environ, **{_MARK: self._token})
        for variable, name in _FOLDERS.items():
            (folder / name).mkdir()
            self._env[variable] = str(folder / name)
        self._env["JUPYTER_CONFIG_PATH"] = str(_SERVER_CONFIG)
        self.has_panel = _add_panel(folder / "share")
        _turn_off_the_news(folder / "settings")
        self._log: IO[bytes] = (folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            self._command(),
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        try:
            self.url = self._wait_for_url()
            wait_until(self._answers, START_TIMEOUT_S, self.read_log)
        except BaseException:
            self.stop()
            raise

    def address(self, name: str) -> str:
        """Give the page of a notebook, with all that was open before forgotten."""
        return f"{self.url}{_KINDS[self.kind][0]}{name}?token={self._token}&reset"

    def static_address(self, name: str) -> str:
        """Give a page of this folder, which may speak to the server's kernels."""
        return f"{self.url}static/{name}?token={self._token}"

    def add_kernel(self, name: str, packages: Path) -> None:
        """Offer one more kernel: what stands in this folder comes before all that is installed."""
        folder = self._folder / "data" / "kernels" / name
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": name,
            "language": "python",
            "env": {"PYTHONPATH": str(packages)},
        }
        (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")

    def kernel_pids(self) -> list[int]:
        """List the processes of the kernels that run here."""
        return [
            process.pid
            for process in self.processes()
            if "ipykernel_launcher" in _command_line(process)
        ]

    def forget(self) -> None:
        """End the kernels and clusters that a test may have left running."""
        for session in json.loads(self._ask("GET", "api/sessions")):
            self._ask("DELETE", f"api/sessions/{session['id']}")
        self._stop_clusters()

    def stop(self) -> list[str]:
        """End the server, politely, then firmly; name whatever outlived it (and is ended now)."""
        if self._process.poll() is None:
            try:
                self.forget()
                self._ask("POST", "api/shutdown")
            except OSError:
                pass  # the signals below need no answer
        self._end_process()
        self._stop_clusters()
        self._log.close()
        # What was asked to end needs a moment to do so.
        watch = Stopwatch()
        while self.processes() and not watch.is_over(END_TIMEOUT_S):
            time.sleep(_POLL_S)
        leftovers = self.processes()
        for process in leftovers:
            process.kill()
        return [f"{process.pid}: {' '.join(_command_line(process))}" for process in leftovers]

    def processes(self) -> list[psutil.Process]:
        """List every living process that comes from this server, however far removed."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def read_log(self) -> str:
        """Give what the server and its kernels wrote."""
        return (self._folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def _command(self) -> list[str]:
        # When the tests are killed the server ends too, and with it its kernels.
        setpriv = shutil.which("setpriv")
        return [
            *([setpriv, "--pdeathsig", "TERM"] if setpriv else []),
            sys.executable, "-m", self.kind, "--no-browser", "--allow-root", "--ip=127.0.0.1",
            f"--IdentityProvider.token={self._token}",
            f"--ServerApp.root_dir={self.notebooks}",
            f"--ServerApp.extra_static_paths={Path(__file__).parent}",
            f"--ServerApp.tornado_settings={_NO_BUILD}",
            _KINDS[self.kind][1],
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]  # fmt: skip

    def _wait_for_url(self) -> str:
        """Read where the server listens from its own note: a port picked for it could be taken."""
        note = self._folder / "runtime" / f"jpserver-{self._process.pid}.json"

        def is_written() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended at its start:\n{self.read_log()}")
            return note.exists() and note.read_text(encoding="utf-8").endswith("}")

        wait_until(is_written, START_TIMEOUT_S, self.read_log)
        return str(json.loads(note.read_text(encoding="utf-8"))["url"])

    def _answers(self) -> bool:
        try:
            self._ask("GET", "api/status")
        except OSError:
            return False
        return True

    def _ask(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Authorization": f"token {self._token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return bytes(answer.read())

    def _stop_clusters(self) -> None:
        if not any((self._folder / "runtime").glob("jupyter-dist-*.json")):
            return
        command = [sys.executable, "-m", "jupyter_dist.cli", "stop", "--all"]
        subprocess.run(
            command, env=self._env, stdout=self._log, stderr=self._log, timeout=90, check=False
        )

    def _end_process(self) -> None:
        for each in (None, signal.SIGTERM, signal.SIGKILL):
            if each is not None and self._process.poll() is None:
                os.killpg(self._process.pid, each)
            try:
                self._process.wait(firm_s(END_TIMEOUT_S))
            except subprocess.TimeoutExpired:
                continue
            return

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            is_marked = process.environ().get(_MARK) == self._token
            return is_marked and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def wait_until(
    is_so: Callable[[], bool], timeout_s: float, explain: Callable[[], str] = str
) -> None:
    """Poll until something is so; raises TimeoutError with an explanation."""
    watch = Stopwatch()
    while not is_so():
        if watch.is_over(timeout_s):
            raise TimeoutError(f"not so after {timeout_s:.0f} s\n{explain()}")
        time.sleep(_POLL_S)


def _add_panel(share: Path) -> bool:
    if not (_PANEL / "package.json").is_file():
        return False
    place = share / "labextensions" / "@jupyter-dist" / "labextension"
    place.parent.mkdir(parents=True)
    place.symlink_to(_PANEL)
    return True


def _turn_off_the_news(settings: Path) -> None:
    folder = settings / "@jupyterlab" / "apputils-extension"
    folder.mkdir(parents=True)
    file = folder / "notification.jupyterlab-settings"
    file.write_text(json.dumps(_NO_NEWS), encoding="utf-8")


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ["gone meanwhile"]
