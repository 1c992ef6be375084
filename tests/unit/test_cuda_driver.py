"""What reaches a real libcuda by ctypes: values, and the interpreter is free meanwhile."""

import ctypes
import shutil
import subprocess
import threading
import time

import pytest

from jupyter_dist import cuda_driver

CONTEXT, EVENT = 0x7FFF12345678, 0x7FFE00001234
SOURCE = f"""
#include <stdint.h>
#include <unistd.h>
static __thread int mode;
static __thread void *current;
int cuInit(unsigned flags) {{ return flags; }}
int cuDeviceGet(int *device, int ordinal) {{ *device = 10 + ordinal; return 0; }}
int cuDevicePrimaryCtxRetain(void **context, int device) {{
    *context = (void *){CONTEXT}; return device == 13 ? 0 : 101;
}}
int cuCtxSetCurrent(void *context) {{ current = context; return 0; }}
int cuEventQuery(void *event) {{
    if ((uintptr_t)event != {EVENT}) return 400;
    if ((uintptr_t)current != {CONTEXT}) return 201;
    if (mode != 2) return 900;
    usleep(500000);
    return 600;
}}
int cuEventElapsedTime(float *elapsed, void *start, void *end) {{
    *elapsed = 0.5f + ((uintptr_t)end - (uintptr_t)start); return start ? 0 : 600;
}}
int cuEventDestroy_v2(void *event) {{ return 0; }}
int cuThreadExchangeStreamCaptureMode(int *given) {{
    int before = mode; mode = *given; *given = before; return 0;
}}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A libcuda of our own, which is slow to answer."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("libcuda")
    source, built = folder / "libcuda.c", folder / "libcuda.so.1"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, source], check=True, timeout=60)
    return built


@pytest.fixture
def load(library, monkeypatch):
    usual = ctypes.CDLL
    monkeypatch.setattr(cuda_driver.ctypes, "CDLL", lambda _name: usual(library))
    return lambda device: cuda_driver.load_driver(None, device)


def test_a_question_leaves_the_interpreter_to_others(load):
    driver = load(3)
    assert isinstance(driver, cuda_driver.LoadedDriver)
    answers = []

    def ask():
        answers.append(driver.query(EVENT))
        driver.use_device()
        answers.append(driver.query(EVENT))
        with driver.relaxed():
            answers.append(driver.query(EVENT))
        answers.append(driver.query(EVENT))

    asking = threading.Thread(target=ask)
    asking.start()
    turns = 0
    while asking.is_alive():
        turns += len(answers) == 2  # while the third question is under way
        time.sleep(0.001)
    assert answers == [201, 900, cuda_driver.NOT_READY, 900]
    assert turns > 20


def test_times_come_back(load):
    driver = load(3)
    assert driver.elapsed_ms(EVENT, EVENT + 2) == 2.5
    assert driver.elapsed_ms(0, EVENT) is None
    driver.destroy(EVENT)


def test_a_device_that_the_driver_refuses_goes_through_the_runtime(load):
    with pytest.raises(AttributeError, match="eventQuery"):  # of a runtime that is None
        load(4)
