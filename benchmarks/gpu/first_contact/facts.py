"""First facts of a GPU: versions, a copy's speed, and who waits behind a hung kernel.

python benchmarks/gpu/first_contact/facts.py [--json FILE]

While the main thread waits in the driver behind a kernel that hangs, another one asks for an event,
by CuPy and by ctypes, and sets the device. The longest wait of each is told, and that of a thread
which does nothing (tick): what is long there was kept from running at all. And while the main
thread captures a graph, another one asks for an event from before, in each of the capture modes.
"""

import argparse
import ctypes
import importlib.metadata
import json
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import cupy

PACKAGES = ("cupy-cuda13x", "cupy-cuda12x", "nvidia-nccl-cu13", "nvidia-nccl-cu12", "nccl4py")
PACKAGES += ("torch", "jax", "jaxlib", "nvidia-ml-py", "numpy", "cuda-pathfinder", "protobuf")
HUNG_S = 3.0
SPIN = r"""
extern "C" __global__ void spin(long long ns) {
    long long begun, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
    do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); } while (now - begun < ns);
}
"""


def list_versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def measure_copy(nbytes: int = 1 << 30) -> float:
    """Return the GB/s of a copy within the GPU: of what is read, which is written as well."""
    source, target = cupy.zeros(nbytes, "u1"), cupy.empty(nbytes, "u1")
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    target[...] = source
    begin.record()
    for _ in range(10):
        target[...] = source
    end.record()
    end.synchronize()
    return float(10 * nbytes / cupy.cuda.get_elapsed_time(begin, end) / 1e6)


def wait_behind(what: Callable[[], None], spin: Any) -> dict[str, float]:
    """Return the longest waits of another thread while `what` is behind a hung kernel."""
    event, driver, over = cupy.cuda.Event(), ctypes.CDLL("libcuda.so.1"), threading.Event()
    ways: dict[str, Callable[[], Any]] = {
        "tick": lambda: None,
        "event by CuPy": lambda: cupy.cuda.runtime.eventQuery(event.ptr),
        "event by ctypes": lambda: driver.cuEventQuery(ctypes.c_void_p(event.ptr)),
        "setDevice": lambda: cupy.cuda.runtime.setDevice(0),
    }
    longest = dict.fromkeys(ways, 0.0)

    def look() -> None:
        while not over.wait(0.01):
            before_s = time.perf_counter()
            for name, call in ways.items():
                call()
                now_s = time.perf_counter()
                longest[name] = max(longest[name], now_s - before_s)
                before_s = now_s

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        spin((1,), (1,), (int(HUNG_S * 1e9),))
    event.record(stream)
    other = threading.Thread(target=look, daemon=True)
    other.start()
    begun_s = time.perf_counter()
    what()
    main_s = time.perf_counter() - begun_s
    stream.synchronize()
    over.set()
    other.join(10)
    return {"main": main_s, **longest}


def capture_beside(mode: int | None, stream: Any) -> str:
    """Say what becomes of a capture while a thread in this mode asks for an event of a stream."""
    driver, over, array = ctypes.CDLL("libcuda.so.1"), threading.Event(), cupy.zeros(1024, "f4")
    event = cupy.cuda.Event()
    with stream:
        array += 1
        event.record()
    codes: set[int] = set()
    device = cupy.cuda.runtime.getDevice()

    def look() -> None:
        cupy.cuda.runtime.setDevice(device)
        if mode is not None:
            driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(mode)))
        while not over.wait(0.01):
            codes.add(driver.cuEventQuery(ctypes.c_void_p(event.ptr)))

    other = threading.Thread(target=look, daemon=True)
    capturing = cupy.cuda.Stream(non_blocking=True)
    try:
        with capturing:
            capturing.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
            other.start()
            array *= 2
            time.sleep(0.2)
            capturing.end_capture()
        said = "captured"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    over.set()
    other.join(10)
    return f"{said}; the query gave {sorted(codes)}"


CAPTURE_MODES = {"as threads begin": None, "thread-local": 1, "relaxed": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="write them there too")
    options = parser.parse_args()
    smi = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    gpus = smi.stdout.strip().splitlines()
    name, driver = gpus[0].split(", ")
    found = {"gpu": name, "gpus": len(gpus), "driver": driver, "versions": list_versions()}
    found["copy_gb_per_s"] = measure_copy()
    runtime, array = cupy.cuda.runtime, cupy.zeros(1 << 20, "f4")
    spin = cupy.RawKernel(SPIN, "spin")
    spin((1,), (1,), (1,))
    behind: dict[str, Callable[[], Any]] = {
        "synchronize": lambda: cupy.cuda.Device().synchronize(),
        "copy to the host": array.get,
        "free": lambda: runtime.free(runtime.malloc(1 << 20)),
        "host memory": lambda: runtime.freeHost(runtime.hostAlloc(1 << 20, 0)),
        "first use of a library": lambda: cupy.linalg.svd(cupy.eye(64)),
    }
    found["blocked_s"] = {what: wait_behind(call, spin) for what, call in behind.items()}
    streams = {"legacy": cupy.cuda.Stream.null, "other": cupy.cuda.Stream(non_blocking=True)}
    found["captures"] = {
        f"{mode}, event on the {which} stream": capture_beside(CAPTURE_MODES[mode], stream)
        for mode in CAPTURE_MODES
        for which, stream in streams.items()
    }
    print(json.dumps(found, indent=2))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=2)


if __name__ == "__main__":
    main()
