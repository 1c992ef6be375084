"""How wheels get to a host, and what is told of a pip that fails there; see test_failures.py, too."""

import io
import tarfile

import pytest

from jupyter_dist.errors import InstallFailed, StartFailed, UsageError
from jupyter_dist.launch.ssh.install import _stdin, explain_install, wheels_for
from jupyter_dist.launch.ssh.pip_on_host import PIP_FAILED, _unpack
from jupyter_dist.model.spec.cluster_spec import HostSpec

HOST = HostSpec("nodeA")
OURS = "jupyter_dist-1.2.0-py3-none-any.whl"
NO_DEPENDENCY = """\
Processing /tmp/jupyter-dist-wheels-snwz9vgv/jupyter_dist-1.2.0-py3-none-any.whl
ERROR: Could not find a version that satisfies the requirement grpcio-health-checking>=1.71 \
(from jupyter-dist) (from versions: none)
ERROR: No matching distribution found for grpcio-health-checking>=1.71
"""


@pytest.mark.parametrize(
    "others",
    [(), ("grpcio_health_checking-1.80.0-cp39-cp39-linux_x86_64.whl",)],
    ids=["none", "old"],
)
def test_what_a_wheelhouse_lacks_is_named_with_what_does_not_fit(others):
    problem = explain_install(HOST, PIP_FAILED, NO_DEPENDENCY, [OURS, *others])
    assert "grpcio-health-checking" in problem.reason
    assert problem.reason.endswith(others or "grpcio-health-checking")
    assert "pip download" in problem.next_step


def test_a_failed_install_keeps_what_it_knows_in_attributes():
    error = InstallFailed("nodeA", "no pip", "Give it.", "last")
    assert isinstance(error, StartFailed)
    assert (error.host, error.reason) == ("nodeA", "no pip")
    assert (error.next_step, error.output) == ("Give it.", "last")
    assert str(error).endswith(" nodeA: no pip. Give it.")


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
    assert "jupyter_dist-1.2.0.post1-py3-none-any.whl, six-1.0-py3-none-any.whl" in text
    assert f" jupyter-dist==1.2.0 -d {tmp_path}`" in text
    assert f"pip wheel . -w {tmp_path}" in text


def test_a_wheelhouse_without_packages_or_that_is_not_there_is_named(tmp_path):
    for place in (fill(tmp_path, "README.md"), tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=f"wheelhouse '{place}' .*no"):
            wheels_for("1.2.0", place)


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
