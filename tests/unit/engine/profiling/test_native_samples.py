import sys

import psutil
import pytest

from jupyter_dist.engine.profiling import native_samples
from jupyter_dist.engine.profiling.native_samples import NativeSamples
from jupyter_dist.errors import UsageError


@pytest.fixture
def py_spy(tmp_path, monkeypatch):
    """Put a program of this name on PATH that runs these lines of shell."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))

    def install(script):
        program = tmp_path / "py-spy"
        program.write_text(script if script.startswith("#!") else f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return install


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("", "py-spy is not installed on its host"),
        ("echo 'Error: Permission Denied' >&2; exit 1", "py-spy may not look: Error: Permission"),
        ("exit 3", "py-spy may not look: exit code 3"),
        ("exec /bin/sleep 60", "py-spy has not begun"),
        ("#!/is/not/there", "py-spy does not start"),
    ],
)
def test_why_it_does_not_look_is_said_and_nothing_runs_then(py_spy, monkeypatch, script, reason):
    monkeypatch.setattr(native_samples, "START_S", 0.2 if "sleep" in script else 60.0)
    if script:
        py_spy(script)
    own = psutil.Process()
    before = set(own.children())
    with pytest.raises(UsageError, match=reason):
        NativeSamples(None, 5.0)
    assert not set(own.children()) - before


def test_a_trace_that_was_not_written_to_its_end_is_told():
    seen, note = native_samples._read_trace(b'[{"ph": "B"', (0, 1000))
    assert (seen.samples, "before it had written" in note) == ([], True)
