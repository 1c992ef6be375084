import dis
import threading
import time
import types

import pytest

from jupyter_dist.errors import FrameworkError, PeerFailed
from jupyter_dist.frameworks.thread_frames import read_calls
from jupyter_dist.frameworks.torch import breaking, stack
from jupyter_dist.frameworks.torch.breaking import Breaking
from jupyter_dist.frameworks.torch.stack import Stillness, ThreadActivity, see_main_thread
from tests.patience import wait_until

CLOSED = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer"


class Torn:
    def __init__(self):
        self.count = self.agains = 0

    def __call__(self, is_again):
        if is_again:
            self.agains += 1
        else:
            self.count += 1


@pytest.fixture
def clock(monkeypatch):
    now = types.SimpleNamespace(s=100.0)
    monkeypatch.setattr(breaking, "monotonic", lambda: now.s)
    return now


@pytest.fixture
def watch(clock, monkeypatch):
    """A watch on a main thread that does `doing`, and has used `used_s` of CPU time."""
    main = types.SimpleNamespace(doing=ThreadActivity.WAITING, used_s=0.0, is_on_device=False)
    torn = Torn()
    watch = Breaking(torn, lambda: main.is_on_device)
    monkeypatch.setattr(breaking, "see_main_thread", lambda: main.doing)
    monkeypatch.setattr(stack, "_used_by_main_thread", lambda: main.used_s)

    def look_for(seconds, share_of_core=0.0):
        for _ in range(round(seconds / 0.05)):
            clock.s += 0.05
            main.used_s += 0.05 * share_of_core
            watch.look()

    return types.SimpleNamespace(main=main, torn=torn, watch=watch, look_for=look_for)


@pytest.mark.parametrize(
    ("doing", "after_s"), [(ThreadActivity.WAITING, 0.25), (ThreadActivity.UNSURE, 2.0)]
)
def test_a_wait_is_torn_once_after_its_time(watch, doing, after_s):
    watch.main.doing = doing
    watch.look_for(1)
    watch.watch.break_off(2, "raised")
    watch.look_for(after_s - 0.1)
    assert watch.torn.count == 0
    watch.look_for(1)
    assert watch.torn.count == 1
    watch.watch.expect_cell()
    watch.look_for(10)
    assert watch.torn.count == 1


@pytest.mark.parametrize(
    ("doing", "share_of_core"),
    [
        (ThreadActivity.WORKING, 0.0),
        (ThreadActivity.WORKING, 1.0),
        (ThreadActivity.UNSURE, 0.2),
        (ThreadActivity.WAITING, 1.0),
    ],
)
def test_work_of_its_own_is_never_torn_for_others_but_after_an_interrupt(
    watch, doing, share_of_core
):
    watch.main.doing = doing
    watch.watch.break_off(2, "raised")
    watch.look_for(20, share_of_core)
    assert watch.torn.count == 0
    watch.watch.expect_cell()
    watch.watch.break_off(-1, "the cell was interrupted")
    watch.look_for(3, share_of_core)
    assert watch.torn.count == 1


def test_what_still_waits_is_torn_again_each_second_until_it_has_ended(watch):
    watch.watch.break_off(2, "raised")
    watch.look_for(3.5)
    assert (watch.torn.count, watch.torn.agains) == (1, 3)
    watch.main.doing = ThreadActivity.WORKING
    watch.look_for(3)
    assert (watch.torn.count, watch.torn.agains) == (1, 3)
    watch.watch.expect_cell()
    watch.watch.break_off(2, "raised")
    watch.main.doing = ThreadActivity.WAITING
    watch.look_for(0.5)
    assert (watch.torn.count, watch.torn.agains) == (2, 3)


def test_a_group_on_devices_is_torn_wherever_its_rank_is(watch):
    watch.main.doing, watch.main.is_on_device = ThreadActivity.WORKING, True
    watch.watch.break_off(2, "raised")
    watch.look_for(1.8, 1.0)
    assert watch.torn.count == 0
    watch.look_for(0.5, 1.0)
    assert watch.torn.count == 1


def test_who_waits_between_others_is_told_of_a_lost_rank():
    watch = Breaking(Torn(), bool)
    watch.look_around()
    watch.break_off(-1, "the cell was interrupted")
    watch.look_around()
    watch.break_off(2, "is lost")
    with pytest.raises(PeerFailed, match="rank 2 is lost"):
        watch.look_around()


def test_an_error_of_gloo_is_the_failure_of_a_peer():
    watch = Breaking(Torn(), bool)
    watch.break_off(-1, "the cell was interrupted")
    assert isinstance(watch.explain(RuntimeError(CLOSED)), KeyboardInterrupt)
    watch.break_off(2, "raised ValueError")
    watch.break_off(1, "raised PeerFailed")
    meant = watch.explain(RuntimeError(CLOSED))
    assert isinstance(meant, PeerFailed)
    assert (meant.rank, meant.reason) == (2, "raised ValueError")


def test_a_connection_that_closes_before_the_reason_is_told_waits_for_it():
    watch = Breaking(Torn(), bool)
    teller = threading.Timer(0.1, watch.break_off, (3, "is lost"))
    teller.start()
    meant = watch.explain(RuntimeError(CLOSED))
    teller.join()
    assert str(meant) == "rank 3 is lost"


def test_an_error_without_a_failure_means_what_it_says(monkeypatch):
    monkeypatch.setattr(breaking, "TOLD_WITHIN_S", 0.01)
    watch = Breaking(Torn(), bool)
    assert watch.explain(RuntimeError(CLOSED)) is None
    watch.break_off(1, "raised")
    assert watch.explain(RuntimeError("shapes differ")) is None
    assert watch.explain(ValueError(CLOSED)) is None
    assert watch.explain(FrameworkError("gloo")) is None


def test_the_number_of_a_device_that_is_not_seen_is_explained(monkeypatch):
    error = RuntimeError("CUDA error: invalid device ordinal\nmore")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    meant = Breaking(Torn(), bool).explain(error)
    assert isinstance(meant, FrameworkError)
    assert "sees one GPU only (CUDA_VISIBLE_DEVICES=3)" in str(meant)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert Breaking(Torn(), bool).explain(error) is None


def test_an_error_that_cannot_be_told_is_left_as_it_is():
    class Unspeakable(RuntimeError):
        def __str__(self):
            raise LookupError

    watch = Breaking(Torn(), bool)
    assert watch.explain(Unspeakable()) is None


def is_main_thread_in_a_call():
    """Tell whether the main thread has come to a call in code that a test runs with `exec`."""
    frame, _ = read_calls()[threading.main_thread().ident][-1]
    code = frame.f_code
    return code.co_filename == "<string>" and "CALL" in dis.opname[code.co_code[frame.f_lasti]]


def see_in(line, names, lock):
    """Run a line that waits for this lock, and give what another thread sees meanwhile."""
    answers = []

    def look_and_release():
        try:
            wait_until(is_main_thread_in_a_call, 10, "the main thread comes to its call")
            answers.append(see_main_thread())
        finally:
            lock.release()

    lock.acquire()
    looker = threading.Thread(target=look_and_release)
    looker.start()
    exec(line, names)
    looker.join()
    return answers[0]


@pytest.mark.parametrize(
    ("name", "doing"),
    [
        ("torch.distributed.distributed_c10d", ThreadActivity.WAITING),
        ("torch.autograd.graph", ThreadActivity.WAITING),
        ("torch._ops", ThreadActivity.UNSURE),
        ("torch.serialization", ThreadActivity.WORKING),
        ("torchvision.io", ThreadActivity.WORKING),
        ("__main__", ThreadActivity.WORKING),
    ],
)
def test_what_the_main_thread_does_is_seen_by_its_innermost_frame(name, doing):
    lock = threading.Lock()
    assert see_in("lock.acquire()", {"__name__": name, "lock": lock}, lock) is doing
    module = types.ModuleType(name)
    module.lock = lock
    exec("def inside():\n    return lock.acquire()", module.__dict__)
    lock.release()
    outer = {"__name__": "torch.distributed.distributed_c10d", "inside": module.inside}
    assert see_in("inside()", outer, lock) is doing, "what it has called decides"


@pytest.mark.parametrize(
    ("line", "doing"),
    [
        ("work.wait()", ThreadActivity.UNSURE),
        ("[each.wait(*never.mind) for each in works]", ThreadActivity.UNSURE),
        ("works[0].wait(\n    *never.mind\n)", ThreadActivity.UNSURE),
        ("time.sleep(len(works))", ThreadActivity.WORKING),
        ("work.acquire()", ThreadActivity.WORKING),
    ],
)
def test_a_method_that_waits_is_seen_in_the_users_own_line(line, doing):
    lock = threading.Lock()
    work = types.SimpleNamespace(wait=lock.acquire, acquire=lock.acquire)
    names = {"__name__": "__main__", "work": work, "works": [work], "time": time}
    names["never"] = types.SimpleNamespace(mind=())
    assert see_in(line, names, lock) is doing


def test_a_thread_stands_still_that_uses_no_core():
    stillness = Stillness()
    assert stillness.look(10.0, 5.0) == 0
    assert stillness.look(10.5, 5.01) == 0.5
    assert stillness.look(11.0, 5.2) == 0, "it has moved"
    assert stillness.look(11.5, 5.2) == 0.5
    stillness.forget()
    assert stillness.look(12.0, 5.2) == 0


def compute():
    end_s = time.thread_time() + 0.1
    while time.thread_time() < end_s:
        pass


@pytest.mark.parametrize(("work", "is_used"), [(lambda: time.sleep(0.1), False), (compute, True)])
def test_the_cpu_time_of_the_main_thread_is_read_by_others(work, is_used):
    read_s = [stack._used_by_main_thread()]
    work()
    thread = threading.Thread(target=lambda: read_s.append(stack._used_by_main_thread()))
    thread.start()
    thread.join()
    assert (read_s[1] - read_s[0] > 0.05) is is_used
