"""What pip said in real failures; only the names are others."""

import io
import re
import tarfile

import pytest

from jupyter_dist.errors import InstallFailed, StartFailed, UsageError
from jupyter_dist.launch.install import _SAYINGS, _stdin, explain_install, wheels_for
from jupyter_dist.launch.pip_on_host import GIVEN_UP, NO_PIP, PIP_FAILED, _unpack
from jupyter_dist.model.spec import HostSpec

HOST = HostSpec("nodeA")
OURS = "jupyter_dist-1.2.0-py3-none-any.whl"
BEGUN = "jupyter-dist: pip shall install jupyter-dist==1.2.0 for /opt/env/bin/python\n"
EXTERNALLY_MANAGED = """\
error: externally-managed-environment

note: If you believe this is a mistake, please contact your Python installation or OS \
distribution provider.
hint: See PEP 668 for the detailed specification.
"""
NO_ROOM = """\
Installing collected packages: numpy
ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device
"""
NO_PERMISSION = """\
ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: \
'/opt/env/lib/python3.11/site-packages/jupyter_dist'
Check the permissions.
"""
READ_ONLY = """\
ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: \
'/opt/env/lib/python3.11/site-packages/jupyter_dist'
"""
NO_INDEX = """\
WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after \
connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object \
at 0x7f23fc111e50>: Failed to establish a new connection: [Errno 111] Connection refused')': \
/simple/jupyter-dist/
ERROR: Could not find a version that satisfies the requirement jupyter-dist==1.2.0 (from versions: none)
ERROR: No matching distribution found for jupyter-dist==1.2.0
"""
NOT_IN_INDEX = """\
ERROR: Could not find a version that satisfies the requirement jupyter-dist==1.2.0 (from versions: 1.0.0)
ERROR: No matching distribution found for jupyter-dist==1.2.0
"""
NO_DEPENDENCY = """\
Processing /tmp/jupyter-dist-wheels-snwz9vgv/jupyter_dist-1.2.0-py3-none-any.whl
ERROR: Could not find a version that satisfies the requirement grpcio-health-checking>=1.71 \
(from jupyter-dist) (from versions: none)
ERROR: No matching distribution found for grpcio-health-checking>=1.71
"""
AT_ODDS = """\
ERROR: Cannot install p==1 because these package versions have conflicting dependencies.

The conflict is caused by:
    p 1 depends on jupyter-dist==0.1.0
    p 1 depends on jupyter-dist==1.2.0

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/
"""
CASES = [
    (
        NO_PIP,
        "jupyter-dist: /opt/env/bin/python has no pip\n",
        "/opt/env/bin/python has no pip",
        "`/opt/env/bin/python -m ensurepip`",
    ),
    (
        PIP_FAILED,
        EXTERNALLY_MANAGED,
        "its Python belongs to the operating system, and takes no packages from pip",
        "name it with --python",
    ),
    (PIP_FAILED, NO_ROOM, "there is no room for it (No space left on device)", "$TMPDIR"),
    (
        PIP_FAILED,
        "jupyter-dist: [Errno 122] Disk quota exceeded\n",
        "there is no room for it (Disk quota exceeded)",
        "Make room",
    ),
    (
        PIP_FAILED,
        NO_PERMISSION,
        "/opt/env/lib/python3.11/site-packages/jupyter_dist cannot be written (Permission denied)",
        "environment of your own",
    ),
    (
        PIP_FAILED,
        READ_ONLY,
        (
            "/opt/env/lib/python3.11/site-packages/jupyter_dist cannot be written "
            "(Read-only file system)"
        ),
        "environment of your own",
    ),
    (
        PIP_FAILED,
        NO_INDEX,
        "its pip does not reach the package index (NewConnectionError)",
        "--wheelhouse DIR",
    ),
    (PIP_FAILED, NOT_IN_INDEX, "its pip finds no jupyter-dist==1.2.0", "PIP_INDEX_URL"),
    (PIP_FAILED, AT_ODDS, "what it needs is at odds (p==1)", "environment of your own"),
    (
        PIP_FAILED,
        "ERROR: Wheel 'q' located at /tmp/q-1-py3-none-any.whl is invalid.\n",
        "Wheel 'q' located at /tmp/q-1-py3-none-any.whl is invalid",
        "Look at what its pip said",
    ),
]


@pytest.mark.parametrize(("status", "output", "reason", "next_step"), CASES)
def test_what_pip_says_is_told_with_what_to_do(status, output, reason, next_step):
    problem = explain_install(HOST, status, BEGUN + output)
    assert problem.reason == reason
    assert next_step in problem.next_step


def test_every_saying_of_pip_is_the_first_that_fits_a_real_text():
    used = [
        next(saying for saying in _SAYINGS if re.search(saying.said, case[1], re.MULTILINE))
        for case in CASES
    ]
    assert [saying.said for saying in _SAYINGS if saying not in used] == []


def test_a_wheelhouse_without_a_dependency_is_told_what_is_missing():
    problem = explain_install(HOST, PIP_FAILED, NO_DEPENDENCY, [OURS])
    assert problem.reason == "the wheelhouse holds no grpcio-health-checking"
    assert "pip download" in problem.next_step


def test_a_wheel_for_another_python_is_named():
    other = "grpcio_health_checking-1.80.0-cp39-cp39-linux_x86_64.whl"
    problem = explain_install(HOST, PIP_FAILED, NO_DEPENDENCY, [OURS, other])
    assert problem.reason == (
        f"the wheelhouse holds no grpcio-health-checking that fits its Python, but {other}"
    )


def test_what_ssh_says_is_told_as_for_any_command():
    text = "ssh: connect to host nodea port 22: Connection refused\r\n"
    assert explain_install(HOST, 255, text).reason == "the connection was refused on port 22"


def test_a_connection_that_broke_is_told_although_pip_had_begun():
    text = BEGUN + "Timeout, server 10.0.0.1 not responding.\r\n"
    assert explain_install(HOST, 255, text).reason == "it stopped answering (cut off, or down)"


def test_an_old_python_is_told_as_for_any_command():
    text = (
        "Unknown option: -P\nusage: python3 [option] ... [-c cmd | -m mod | file | -] [arg] ...\n"
    )
    assert explain_install(HOST, 2, text).reason == "python3 is older than Python 3.11"


def test_a_host_that_gave_up_by_itself_is_told_with_its_last_line():
    assert f"(status {GIVEN_UP})" in explain_install(HOST, GIVEN_UP, BEGUN).reason


def test_what_pip_was_waiting_for_is_told_when_the_time_is_over():
    retrying = BEGUN + NO_INDEX.splitlines(keepends=True)[0]
    problem = explain_install(HOST, None, retrying)
    assert problem.reason == (
        "it was not done in time: its pip does not reach the package index (NewConnectionError)"
    )
    assert "--wheelhouse DIR" in problem.next_step


def test_a_slow_host_is_to_be_given_more_time():
    problem = explain_install(HOST, None, BEGUN)
    assert problem.reason == "it was not done in time"
    assert "--timeout" in problem.next_step


def test_a_failed_install_keeps_what_it_knows_in_attributes():
    error = InstallFailed("nodeA", "it has no pip", "Give it one.", "the last line")
    assert isinstance(error, StartFailed)
    assert (error.host, error.reason) == ("nodeA", "it has no pip")
    assert (error.next_step, error.output) == ("Give it one.", "the last line")
    assert str(error) == (
        "jupyter-dist could not be installed on nodeA: it has no pip. Give it one."
    )


def fill(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


def test_a_wheelhouse_is_all_packages_in_it(tmp_path):
    fill(tmp_path, "numpy-2.0.0-cp311-cp311-linux_x86_64.whl", OURS, "old-1.0.tar.gz", "README.md")
    assert wheels_for("1.2.0", tmp_path) == [
        OURS,
        "numpy-2.0.0-cp311-cp311-linux_x86_64.whl",
        "old-1.0.tar.gz",
    ]


def test_a_wheelhouse_with_another_version_of_ours_names_what_it_holds(tmp_path):
    fill(tmp_path, "jupyter_dist-1.2.0.post1-py3-none-any.whl", "six-1.0-py3-none-any.whl")
    with pytest.raises(UsageError) as caught:
        wheels_for("1.2.0", tmp_path)
    text = str(caught.value)
    assert "has no wheel of jupyter-dist 1.2.0" in text
    assert "jupyter_dist-1.2.0.post1-py3-none-any.whl, six-1.0-py3-none-any.whl" in text
    assert f"pip download jupyter-dist==1.2.0 -d {tmp_path}" in text
    assert f"pip wheel . -w {tmp_path}" in text


def test_a_wheelhouse_without_packages_says_so(tmp_path):
    with pytest.raises(UsageError, match="it holds no packages"):
        wheels_for("1.2.0", fill(tmp_path, "README.md"))


def test_a_wheelhouse_that_is_not_there_says_so(tmp_path):
    with pytest.raises(UsageError, match="is not a directory"):
        wheels_for("1.2.0", tmp_path / "nowhere")


# A multiple of 512 needs no padding, and 10240 is what tar reads at once.
SIZES = [0, 1, 511, 512, 513, 10_240, 300_000]


def test_the_host_reads_the_program_and_then_exactly_the_wheels(tmp_path):
    wheels = [tmp_path / f"w{size}-1-py3-none-any.whl" for size in SIZES]
    for wheel, size in zip(wheels, SIZES, strict=True):
        wheel.write_bytes(bytes(index % 251 for index in range(size)))
    sent = b"".join(_stdin(b"program", wheels))
    assert sent.startswith(b"program")
    archive = sent.removeprefix(b"program")
    assert len(archive) % tarfile.RECORDSIZE == 0  # or the host waits for the rest
    there = tmp_path / "there"
    there.mkdir()
    _unpack(io.BytesIO(archive), str(there))
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: path.read_bytes() for path in wheels
    }


def test_without_a_wheelhouse_only_the_program_is_sent():
    assert list(_stdin(b"program", [])) == [b"program"]


def test_what_is_unpacked_never_leaves_its_folder(tmp_path):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        member = tarfile.TarInfo("../../outside.whl")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    stream.seek(0)
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    _unpack(stream, str(folder))
    assert [path.name for path in tmp_path.rglob("*.whl")] == ["outside.whl"]
    assert (folder / "outside.whl").read_bytes() == b"x"


def test_a_stream_that_breaks_off_is_noticed(tmp_path):
    wheel = tmp_path / OURS
    wheel.write_bytes(bytes(300_000))
    sent = b"".join(_stdin(b"", [wheel]))
    with pytest.raises(tarfile.ReadError):
        _unpack(io.BytesIO(sent[:150_000]), str(tmp_path))
