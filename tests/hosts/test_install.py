"""jupyter-dist gets onto hosts that have none, by their own pip, and leaves nothing else there."""

import contextlib
import errno
import functools
import http.server
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_dist.errors import InstallFailed, UsageError
from jupyter_dist.launch.ssh.install import install_on
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.version import __version__
from tests.facts import assert_tells

from .clusters import GRACE_S

ROOT = Path(__file__).parents[2]
ENVIRONMENT = "/var/tmp/env"
DEPENDENCIES = "/var/tmp/dependencies"
TIMEOUT_S = 60.0
OWN_INDEX = (
    "PIP_CONFIG_FILE=/dev/null PIP_TRUSTED_HOST={address} PIP_INDEX_URL=http://{place}/simple"
)


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory):
    """A directory with the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT],
        check=True,
        timeout=100,
    )
    return folder


def make_environment(lab, host, *, with_pip=True):
    """Give a host an environment with all that jupyter-dist needs, but without itself.

    Links, because an environment that saw ours would see, with the rest of it, that jupyter-dist
    is installed already.
    """
    seen = lab.path(host, DEPENDENCIES)
    seen.mkdir()
    without = (
        ("jupyter_dist", "__pycache__") if with_pip else ("jupyter_dist", "__pycache__", "pip")
    )
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(without) and path.suffix != ".pth":
            (seen / path.name).symlink_to(path)
    done = lab.run(host, [sys.executable, "-m", "venv", "--without-pip", ENVIRONMENT])
    assert done.returncode == 0, done.stderr
    (site,) = lab.path(host, ENVIRONMENT).glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")


def imported_from(lab, host):
    """Where the environment finds jupyter-dist; empty when it does not."""
    code = "import jupyter_dist, jupyter_dist.agent; print(jupyter_dist.__file__)"
    return lab.run(host, [f"{ENVIRONMENT}/bin/python", "-P", "-c", code]).stdout.strip()


def spec(lab, host="nodeA", **options):
    return HostSpec(host, **{"ssh": lab.ssh, "python": ENVIRONMENT, **options})


def install(host, wheelhouse=None, timeout_s=TIMEOUT_S, **options):
    """Install, and give what was said."""
    log = io.BytesIO()
    install_on(host, __version__, wheelhouse, log, timeout_s, **options)
    return log.getvalue().decode()


@contextlib.contextmanager
def served(server):
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def index(lab, wheelhouse, tmp_path):
    """A setup command that makes pip take packages from an index of this machine."""
    shutil.copytree(wheelhouse, tmp_path / "simple" / "jupyter-dist")
    handler = functools.partial(QuietHandler, directory=tmp_path)
    with served(http.server.ThreadingHTTPServer((lab.head_address, 0), handler)) as server:
        yield own_index(lab, server.server_address[1])


def own_index(lab, port):
    address = lab.head_address
    return "export " + OWN_INDEX.format(address=address, place=f"{address}:{port}")


class SilentIndex:
    """An index that takes connections and never answers, so that pip waits."""

    def __init__(self, lab):
        self._server = socket.create_server((lab.head_address, 0))
        self.setup = own_index(lab, self._server.getsockname()[1])
        self.is_asked = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def when_asked(self, call):
        """Call something from another thread as soon as pip waits."""
        threading.Thread(target=lambda: self.is_asked.wait(30) and call(), daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            self._connection, _ = self._server.accept()
            self.is_asked.set()

    def close(self):
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        if self.is_asked.is_set():
            self._connection.close()


@pytest.fixture
def silent_index(lab):
    """An index on which pip waits."""
    index = SilentIndex(lab)
    yield index
    index.close()


@pytest.mark.slow
def test_a_host_without_internet_gets_it_from_a_wheelhouse(lab, wheelhouse):
    make_environment(lab, "nodeA")
    assert imported_from(lab, "nodeA") == ""
    said = install(spec(lab), wheelhouse)
    assert f"installed jupyter-dist-{__version__}" in said
    assert imported_from(lab, "nodeA").startswith(f"{ENVIRONMENT}/lib/")
    assert lab.leftovers("nodeA") == []


@pytest.mark.slow
def test_a_host_gets_it_by_the_pip_that_is_set_up_there(lab, index):
    make_environment(lab, "nodeA")
    said = install(spec(lab, setup=(index,)))
    assert f"installed jupyter-dist-{__version__}" in said
    assert imported_from(lab, "nodeA").startswith(f"{ENVIRONMENT}/lib/")
    assert lab.leftovers("nodeA") == []


@pytest.mark.slow
def test_hosts_that_share_an_environment_install_one_after_the_other(lab, wheelhouse):
    make_environment(lab, "nodeA")
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(install, spec(lab), wheelhouse) for _ in range(2)]
        said = [run.result() for run in runs]
    assert sum("Successfully installed" in text for text in said) == 1
    assert sum("already satisfied: jupyter-dist==" in text for text in said) == 1
    assert imported_from(lab, "nodeA").startswith(f"{ENVIRONMENT}/lib/")


def test_a_wheelhouse_without_our_wheel_is_refused_before_the_host_is_asked(lab, tmp_path):
    (tmp_path / "six-1.17.0-py2.py3-none-any.whl").touch()
    with pytest.raises(UsageError, match=r"six-1\.17\.0-py2\.py3-none-any\.whl"):
        install(spec(lab, "nobody-knows-this-host"), tmp_path)


@pytest.mark.slow
def test_a_version_that_the_index_does_not_have_is_named(lab, index):
    make_environment(lab, "nodeA")
    host = spec(lab, setup=(index,))
    with pytest.raises(InstallFailed, match=r"no jupyter-dist==99\.0") as caught:
        install_on(host, "99.0", None, io.BytesIO(), TIMEOUT_S)
    assert "for jupyter-dist==99.0" in caught.value.output


@pytest.mark.slow
def test_a_python_without_pip_is_told_how_to_get_one(lab, wheelhouse):
    make_environment(lab, "nodeA", with_pip=False)
    with pytest.raises(InstallFailed, match=r"-m ensurepip") as caught:
        install(spec(lab), wheelhouse)
    assert caught.value.host == "nodeA"
    assert_tells(caught.value.reason, f"{ENVIRONMENT}/bin/python ", "no pip")


@pytest.mark.slow
def test_an_environment_of_somebody_else_is_told_as_such(lab, wheelhouse):
    make_environment(lab, "nodeA")
    with pytest.raises(InstallFailed) as caught:
        install(spec(lab, user="alice"), wheelhouse)
    assert_tells(caught.value.reason, ENVIRONMENT, f" written ({os.strerror(errno.EACCES)})")
    assert "your own" in caught.value.next_step


def test_a_host_that_cannot_be_reached_is_told_as_for_any_command(lab, wheelhouse):
    lab.drop("nodeA")
    host = spec(lab, ssh=(*lab.ssh, "-oConnectTimeout=1"))
    with pytest.raises(InstallFailed, match=r"nothing answered .*port 22"):
        install(host, wheelhouse)


def test_a_machine_without_that_ssh_says_so(lab, wheelhouse):
    with pytest.raises(InstallFailed, match=f"no-such-ssh: {os.strerror(errno.ENOENT)}"):
        install(spec(lab, ssh=("no-such-ssh",)), wheelhouse)


@pytest.mark.slow
def test_time_that_is_over_ends_it_on_the_host_too(lab, silent_index):
    make_environment(lab, "nodeA")
    with pytest.raises(InstallFailed, match="not done"):
        install(spec(lab, setup=(silent_index.setup,)), timeout_s=20.0)
    assert silent_index.is_asked.is_set()
    lab.assert_nothing_left(GRACE_S)


@pytest.mark.slow
def test_an_install_that_nobody_wants_any_more_ends_on_the_host_too(lab, silent_index):
    make_environment(lab, "nodeA")
    with pytest.raises(InstallFailed, match="given up"):
        install(spec(lab, setup=(silent_index.setup,)), is_unwanted=silent_index.is_asked.is_set)
    lab.assert_nothing_left(GRACE_S)


@pytest.mark.slow
def test_ctrl_c_ends_it_on_the_host_too(lab, silent_index):
    make_environment(lab, "nodeA")
    silent_index.when_asked(lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        install(spec(lab, setup=(silent_index.setup,)))
    lab.assert_nothing_left(GRACE_S)


@pytest.mark.slow
def test_the_end_of_the_one_who_installs_ends_it_on_the_host_too(lab, silent_index):
    make_environment(lab, "nodeA")
    code = (
        "import sys; from jupyter_dist.launch.ssh.install import install_on\n"
        "from jupyter_dist.model.spec.cluster_spec import HostSpec\n"
        "name, python, setup, *ssh = sys.argv[1:]\n"
        "host = HostSpec(name, ssh=tuple(ssh), python=python, setup=(setup,))\n"
        f"install_on(host, {__version__!r}, None, sys.stdout.buffer, {TIMEOUT_S})"
    )
    words = [sys.executable, "-c", code, "nodeA", ENVIRONMENT, silent_index.setup, *lab.ssh]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        try:
            assert silent_index.is_asked.wait(30)
            assert lab.leftovers("nodeA") != []
        finally:
            process.kill()
    lab.assert_nothing_left(within_s=5.0)


@pytest.mark.slow
def test_a_transfer_that_is_given_up_leaves_no_wheels(lab, wheelhouse, tmp_path):
    make_environment(lab, "nodeA")
    shutil.copytree(wheelhouse, tmp_path, dirs_exist_ok=True)
    with (tmp_path / "big-1.0-py3-none-any.whl").open("wb") as big:
        big.truncate(256 << 20)
    lab.delay("nodeA", 20)  # so that it takes its time
    folder = lab.path("nodeA", "/tmp")
    with pytest.raises(InstallFailed, match="given up"):
        install(
            spec(lab), tmp_path, is_unwanted=lambda: any(folder.glob("jupyter-dist-wheels-*/big-*"))
        )
    lab.assert_nothing_left(GRACE_S)
