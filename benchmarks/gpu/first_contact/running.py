"""Runs one program of the plan with an end, and keeps what it has found."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plan import ROOT, SHARING, Run, command
from reading import read_tests

PATIENCE_S = 15.0
"""In which pytest must have written what it knows, once its time is over."""
_TAIL = 2000
_CACHE = Path.home() / ".cache" / "jupyter-dist-gpu"
_LIBRARY = "nvidia/nccl/lib/libnccl.so.2"


def install_kit(kit: Path, cache: Path = _CACHE) -> None:
    """Unpack the wheels of `make gpu-kit`, if there are any and that has not been done."""
    for name in ("site", "nccl"):
        wheels = sorted(str(path) for path in (kit / name).glob("*.whl"))
        stamp, wanted = cache / f"{name}.txt", "\n".join(map(os.path.basename, wheels))
        if not wheels or (stamp.exists() and stamp.read_text() == wanted):
            continue
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        quick = ["--no-compile", "--no-cache-dir", "--upgrade", "--target", str(cache / name)]
        subprocess.run([*pip, *quick, *wheels], check=True, timeout=300)
        stamp.write_text(wanted)


def environment(run: Run, folder: Path, cache: Path = _CACHE) -> dict[str, str]:
    """Return the variables of a run: agents find what is in PYTHONPATH alone."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    if (cache / "site").exists():
        paths.insert(0, str(cache / "site"))
    own = {name: value.replace("{folder}", str(folder)) for name, value in run.env.items()}
    if run.nccl == SHARING and (cache / "nccl").exists():
        paths.insert(0, str(cache / "nccl"))
        own["LD_PRELOAD"] = str(cache / "nccl" / _LIBRARY)  # before that of torch, by its name
    own |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, "CUPY_CACHE_DIR": str(cache / "cupy"), **own}


def perform(run: Run, folder: Path, limit_s: float, env: Mapping[str, str]) -> dict[str, Any]:
    """Run it for at most `limit_s`; return how it ended, and its tests, figures and output."""
    for suffix in ("xml", "json"):  # those of an earlier try would pass for its own
        (folder / f"{run.name}.{suffix}").unlink(missing_ok=True)
    begun, begun_s = datetime.now(UTC), time.monotonic()
    log = folder / f"{run.name}.txt"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command(run, folder),
            cwd=ROOT,
            env=dict(env),
            stdout=file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            ended = _await_end(process, limit_s)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return {
        "begun": begun.isoformat(timespec="seconds"),
        "ended": ended,
        "code": process.returncode,
        "wall_s": round(time.monotonic() - begun_s, 1),
        "nccl": run.nccl,
        "tests": read_tests(folder / f"{run.name}.xml"),
        "report": _read_json(folder / f"{run.name}.json"),
        "tail": log.read_text("utf-8", "replace")[-_TAIL:],
    }


def _await_end(process: "subprocess.Popen[bytes]", limit_s: float) -> str:
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
        return f"stopped after {limit_s:.0f} s"
    return ""


def _read_json(path: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text(encoding="utf-8"))
    return None
