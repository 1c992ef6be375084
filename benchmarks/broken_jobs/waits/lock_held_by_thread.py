# /// job
# cause = "on rank 2 a thread keeps the lock for which the main thread waits"
# ranks = [2]
# at = ["with cache_lock:"]
# says = "lock"
# ///
import threading

cache_lock = threading.Lock()
filled = threading.Event()


def fill_cache():
    cache_lock.acquire()  # and never releases it where the cache is full
    if rank != 2:
        cache_lock.release()
    filled.set()


threading.Thread(target=fill_cache, daemon=True).start()
filled.wait()
with cache_lock:
    print("cache is filled")
comm.barrier()
