import signal
import threading

from jupyter_dist.engine.stack_sign import StackSign
from jupyter_dist.model.stack_place import SIGNALLED_THREAD, SPARED_THREAD, STACK_SIGNAL


def names_while(handlers):
    """The system's names of a thread that renews its sign under one handler after the other."""
    names = []
    before = signal.getsignal(STACK_SIGNAL)

    def renew():
        sign.renew()
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", encoding="ascii") as comm:
            names.append(comm.read().strip())

    sign = StackSign()
    turns, done = threading.Semaphore(0), threading.Semaphore(0)

    def serve():
        for _ in handlers:
            turns.acquire()
            renew()
            done.release()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        for handler in handlers:
            signal.signal(STACK_SIGNAL, handler)
            turns.release()
            done.acquire()
    finally:
        signal.signal(STACK_SIGNAL, before)
        thread.join()
    return names


def test_the_thread_is_marked_for_signals_while_user_code_has_no_handler_of_its_own():
    assert names_while([signal.SIG_DFL, lambda *_: None, signal.SIG_DFL]) == [
        SIGNALLED_THREAD,
        SPARED_THREAD,
        SIGNALLED_THREAD,
    ]
