"""A real JupyterLab for the tests, its notebooks as a browser shows them, and its clean end."""

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
from typing import IO, Any

import psutil

START_TIMEOUT_S = 40.0
END_TIMEOUT_S = 10.0
CELL_TIMEOUT_S = 40.0
_POLL_S = 0.05
_MARK = "JD_TEST_LAB"
"""Set for the server and thereby for all that it starts, so that nothing of it is overlooked."""
_FOLDERS = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    "IPYTHONDIR": "ipython",
    "TMPDIR": "tmp",
}
_NO_NEWS = {"fetchNews": "false", "checkForUpdates": False}
# Lab's own word for the notebook in front; everything below speaks to it.
_KERNEL_IS_IDLE = """() => {
  const session = window.jupyterapp?.shell?.currentWidget?.sessionContext?.session;
  return session?.kernel?.connectionStatus === 'connected' && session.kernel.status === 'idle';
}"""
_RUN_CELL = """index => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  window.isCellDone = false;
  window.jupyterapp.commands.execute('notebook:run-cell').finally(() => {
    window.isCellDone = true;
  });
}"""


class Lab:
    """A JupyterLab server of its own: nothing of the person's Jupyter is read or written."""

    def __init__(self, folder: Path) -> None:
        self.notebooks = folder / "notebooks"
        self.notebooks.mkdir(parents=True)
        self._folder = folder
        self._token = secrets.token_hex(16)
        self._env = dict(os.environ, **{_MARK: self._token})
        for variable, name in _FOLDERS.items():
            (folder / name).mkdir()
            self._env[variable] = str(folder / name)
        _turn_off_the_news(folder / "settings")
        self._log: IO[bytes] = (folder / "lab.log").open("wb")
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
        return f"{self.url}lab/tree/{name}?token={self._token}&reset"

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
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while self.processes() and time.monotonic() < deadline_s:
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
        return (self._folder / "lab.log").read_text(encoding="utf-8", errors="replace")

    def _command(self) -> list[str]:
        # When the tests are killed the server ends too, and with it its kernels.
        setpriv = shutil.which("setpriv")
        return [
            *([setpriv, "--pdeathsig", "TERM"] if setpriv else []),
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
            f"--IdentityProvider.token={self._token}",
            f"--ServerApp.root_dir={self.notebooks}",
            "--LabApp.expose_app_in_browser=True",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ]  # fmt: skip

    def _wait_for_url(self) -> str:
        """Read where the server listens from its own note: a port picked for it could be taken."""
        note = self._folder / "runtime" / f"jpserver-{self._process.pid}.json"

        def is_written() -> bool:
            if self._process.poll() is not None:
                raise RuntimeError(f"JupyterLab ended at its start:\n{self.read_log()}")
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
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())

    def _stop_clusters(self) -> None:
        if not any((self._folder / "runtime").glob("jupyter-dist-*.json")):
            return
        command = [sys.executable, "-m", "jupyter_dist.cli", "stop", "--all"]
        subprocess.run(
            command, env=self._env, stdout=self._log, stderr=self._log, timeout=30, check=False
        )

    def _end_process(self) -> None:
        for each in (None, signal.SIGTERM, signal.SIGKILL):
            if each is not None and self._process.poll() is None:
                os.killpg(self._process.pid, each)
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                continue
            return

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            is_marked = process.environ().get(_MARK) == self._token
            return is_marked and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


class LabNotebook:
    """A notebook that is open in JupyterLab; cells are named by their index."""

    def __init__(self, page: Any, path: Path) -> None:
        self.page = page
        self.path = path

    def wait_for_kernel(self) -> None:
        """Wait until the kernel is connected and idle."""
        self.page.wait_for_function(_KERNEL_IS_IDLE, timeout=CELL_TIMEOUT_S * 1000)

    def start(self, index: int) -> None:
        """Begin to run a cell."""
        self.page.evaluate(_RUN_CELL, index)

    def wait(self, timeout_s: float = CELL_TIMEOUT_S) -> None:
        """Wait until the cell that was started last has ended, well or not."""
        self.page.wait_for_function("() => window.isCellDone", timeout=timeout_s * 1000)

    def run(self, index: int) -> str:
        """Run a cell to its end; give its output as a person reads it."""
        self.start(index)
        self.wait()
        return self.text(index)

    def text(self, index: int) -> str:
        """Give the rendered text of a cell's output."""
        script = """index => {
          const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
          return cell.outputArea?.node.innerText ?? '';
        }"""
        return str(self.page.evaluate(script, index)).replace("\xa0", " ")

    def wait_for_text(self, index: int, words: str, timeout_s: float = CELL_TIMEOUT_S) -> None:
        """Wait until a cell's output shows these words."""
        script = """([index, words]) => {
          const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
          return cell.outputArea.node.innerText.includes(words);
        }"""
        self.page.wait_for_function(script, arg=[index, words], timeout=timeout_s * 1000)

    def show(self, index: int) -> Any:
        """Scroll to a cell; give its output area as an element to ask and to photograph."""
        script = """index => {
          const notebook = window.jupyterapp.shell.currentWidget.content;
          return notebook.scrollToItem(index, 'start').then(
            () => notebook.widgets[index].outputArea.node);
        }"""
        return self.page.evaluate_handle(script, index).as_element()

    def is_trusted(self, index: int) -> bool:
        """Tell whether Lab trusts the outputs of a cell."""
        script = "i => window.jupyterapp.shell.currentWidget.content.widgets[i].model.trusted"
        return bool(self.page.evaluate(script, index))

    def save(self) -> dict[str, Any]:
        """Save as Ctrl-S does; give what stands in the file."""
        self.command("docmanager:save")
        content: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return content

    def reload(self) -> None:
        """Load the whole page again, as F5 does."""
        self.page.reload()
        self.wait_for_kernel()

    def restart_kernel(self) -> None:
        """Restart the kernel as the menu does, without its question; wait for its answer."""
        # What it is said to do may still be what the one before did, so the new one is asked.
        script = """() => {
          const context = window.jupyterapp.shell.currentWidget.sessionContext;
          return context.restartKernel()
            .then(() => context.session.kernel.requestKernelInfo()).then(() => 0);
        }"""
        self.page.evaluate(script)
        self.wait_for_kernel()

    def shut_kernel_down(self) -> None:
        """End the kernel; the notebook stays open without one."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.wait_for_function(
            "() => !window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel"
        )

    def command(self, name: str, **arguments: object) -> None:
        """Run one of Lab's commands to its end."""
        script = (
            "([name, options]) => window.jupyterapp.commands.execute(name, options).then(() => 0)"
        )
        self.page.evaluate(script, [name, arguments])

    def change_theme(self, name: str) -> None:
        """Dress Lab in one of its themes."""
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function(
            """name => document.body.dataset.jpThemeName === name
              && !document.getElementById('jupyterlab-splash')""",
            arg=name,
        )


def wait_until(
    is_so: Callable[[], bool], timeout_s: float, explain: Callable[[], str] = str
) -> None:
    """Poll until something is so; raises TimeoutError with an explanation."""
    deadline_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not so after {timeout_s:.0f} s\n{explain()}")
        time.sleep(_POLL_S)


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
