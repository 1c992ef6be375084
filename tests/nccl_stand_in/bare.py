"""What the stand-in does with bare calls of nccl4py, of one rank alone; prints what came of it.

python bare.py NAME
"""

import os
import sys
import threading
import time

import numpy as np
from nccl.bindings import nccl
from stand_in import get, put

FLOAT32, SUM = 7, 0


def status_of(call, *args):
    """Return the result code of a call, which nccl4py raises unless it is one of success."""
    try:
        call(*args)
    except nccl.NCCLError as error:
        return int(error.status)
    return 0


def form(size=1, rank=0, blocking=0):
    config = nccl.Config()
    config.blocking = blocking
    return nccl.comm_init_rank_config(size, nccl.get_unique_id(), rank, config)


def polls(comm):
    """Return how often the last call was in progress when asked, and what it became."""
    count = 0
    while (state := int(nccl.comm_get_async_error(comm))) == 7:
        count += 1
        time.sleep(1e-3)
    return count, state


def formed(**options):
    comm = form(**options)
    polls(comm)
    return comm


def reduce(comm, array, datatype=FLOAT32, op=SUM):
    nccl.all_reduce(array.data.ptr, array.data.ptr, array.size, datatype, op, comm, 0)


def ticks_during(call):
    """Count how often another thread gets its turn while this one is in a call."""
    count, is_over = 0, threading.Event()

    def tick():
        nonlocal count
        while not is_over.wait(0.01):
            count += 1

    thread = threading.Thread(target=tick)
    thread.start()
    call()
    is_over.set()
    thread.join()
    return count


def in_progress():
    comm = form()
    first = polls(comm)
    array = put(np.full(3, 5.0, "f4"))
    reduce(comm, array)
    second = polls(comm)
    return first[0] > 0, first[1], second[0] > 0, second[1], get(array).tolist()


def launch_while_forming():
    return status_of(reduce, form(size=2), put(np.zeros(1, "f4")))


def launch_while_in_progress():
    comm, array = formed(), put(np.zeros(1, "f4"))
    reduce(comm, array)
    return status_of(reduce, comm, array)


def unknown_type():
    return status_of(reduce, formed(), put(np.zeros(1, "f4")), 12)


def unknown_op():
    return status_of(reduce, formed(), put(np.zeros(1, "f4")), FLOAT32, 5)


def no_buffer():
    return status_of(nccl.all_reduce, 0, 0, 4, FLOAT32, SUM, formed(), 0)


def use_after_abort():
    comm = formed()
    nccl.comm_abort(comm)
    return status_of(nccl.comm_get_async_error, comm)


def second_abort():
    comm = formed()
    nccl.comm_abort(comm)
    return status_of(nccl.comm_abort, comm)


def destroy_before_its_time():
    comm = formed()
    nccl.comm_finalize(comm)
    return status_of(nccl.comm_destroy, comm)


def wrong_config():
    config = nccl.Config()
    config.blocking = 2
    return status_of(nccl.comm_init_rank_config, 1, nccl.get_unique_id(), 0, config)


def two_threads():
    os.environ["NCCL_STAND_IN_LAUNCH_S"] = "0.5"
    comm, array = formed(), put(np.zeros(1, "f4"))
    thread = threading.Thread(target=reduce, args=(comm, array))
    thread.start()
    time.sleep(0.2)
    found = status_of(nccl.comm_get_async_error, comm)
    thread.join()
    return found


def ends():
    """Finalize, poll and destroy: the way of healthy communicators."""
    comm = formed()
    nccl.comm_finalize(comm)
    found = polls(comm)
    return found[0] > 0, found[1], status_of(nccl.comm_destroy, comm)


def gil():
    """Slow calls, and the turns that another thread got meanwhile."""
    os.environ.update(NCCL_STAND_IN_LAUNCH_S="0.3", NCCL_STAND_IN_ABORT_S="0.3")
    comm, array = formed(), put(np.zeros(1, "f4"))
    launching = ticks_during(lambda: reduce(comm, array))
    polls(comm)
    aborting = ticks_during(lambda: nccl.comm_abort(comm))
    os.environ["NCCL_STAND_IN_INIT_S"] = "0.3"
    forming = ticks_during(lambda: form(blocking=1))
    return min(launching, aborting, forming)


print(globals()[sys.argv[1]]())
