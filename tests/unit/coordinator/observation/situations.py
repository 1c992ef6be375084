"""Situations that ranks get into, as they are seen from outside; each is one verdict."""

from jupyter_dist.coordinator.observation.rank_snapshot import RankSnapshot
from jupyter_dist.model.hosts.topology import CollectiveView
from jupyter_dist.model.ranks.stacks import Frame

PYTHON = "/usr/lib/python3.11"
PACKAGES = f"{PYTHON}/site-packages"
_HOSTS = ("a", "a", "a", "a", "b", "b", "b", "b")


def frames(*texts):
    """A stack, each call as `site function: code`."""
    return tuple(_frame(text) for text in texts)


def _frame(text):
    head, _, code = text.partition(": ")
    site, _, function = head.partition(" ")
    return Frame(function or "<module>", site, code)


def view(call="all_reduce", number=17, seconds=12.0, **more):
    """A call that a rank sits in."""
    return CollectiveView(number, call, seconds, **{"is_running": True, "site": "In[5]:7", **more})


def inside(rank, call="all_reduce", number=17, seconds=12.0, **more):
    """A rank that sits in a call; host b begins with rank 4."""
    own = {name: more.pop(name) for name in list(more) if name in RankSnapshot.__struct_fields__}
    return seen(rank, collective=view(call, number, seconds, **more), **own)


def seen(rank, *stack, **more):
    """A rank that runs the cell for 20 s and sits in no collective."""
    usual = {"host": _HOSTS[rank], "pid": 4710 + rank, "busy_s": 20.0, "stack_s": 4.0}
    return RankSnapshot(rank=rank, stack=frames(*stack), **{**usual, **more})


def ended(rank, status="ok", **more):
    """A rank that has ended the cell."""
    return seen(rank, status=status, **more)


def computing(rank, *stack, **more):
    """A rank that uses its core."""
    return seen(rank, *stack, **{"process_state": "R", "cpu_percent": 99.0, **more})


def resting(rank, *stack, **more):
    """A rank that uses no core."""
    return seen(rank, *stack, **{"process_state": "S", "cpu_percent": 0.0, **more})


def waiting_for(rank, **more):
    """Ranks of four that wait for one, which is given."""
    return [rank if each == rank.rank else inside(each, **more) for each in range(4)]


BEFORE = CollectiveView(16, "barrier", 0.1, is_running=False, site="In[5]:4")
EARLIER = view(number=40, seconds=0.1, is_running=False, site="In[4]:2", is_earlier=True)
SPLIT = {"group": "0-1"}
LOCK = (f"{PYTHON}/threading.py:327 wait", f"{PYTHON}/threading.py:634 acquire")
JAX = (
    "In[5]:7: y = step(x).block_until_ready()",
    f"{PACKAGES}/jax/_src/array.py:660 block_until_ready",
)
JIT = (
    "In[5]:6: y = grind(x)",
    f"{PACKAGES}/jax/_src/traceback_util.py:195 reraise_with_filtered_traceback",
    f"{PACKAGES}/jax/_src/pjit.py:259 cache_miss",
    f"{PACKAGES}/jax/_src/pjit.py:139 _run_python_pjit",
)
TORCH = (
    "In[5]:7: dist.all_reduce(x)",
    f"{PACKAGES}/torch/distributed/c10d_logger.py:83 wrapper",
    f"{PACKAGES}/torch/distributed/distributed_c10d.py:2806 all_reduce",
)
INIT = (
    "In[4]:2: torch.distributed.init_process_group()",
    f"{PACKAGES}/torch/distributed/distributed_c10d.py:1710 init_process_group",
    f"{PACKAGES}/torch/distributed/rendezvous.py:258 _env_rendezvous_handler",
)
SETUP = "In[4]:2: jax.distributed.initialize()"
"""Where we wait in place of a framework: stacks end where our code begins."""


def in_step(rank, number=5, operation="jit(step)", **more):
    """A rank that sits in a program of JAX; of four ranks unless it is said otherwise."""
    return inside(rank, operation, number, **{"group": "0-3~jax", **more})


def in_step_for(rank):
    """Ranks of four that sit in a program of JAX and wait for one, which is given."""
    return [rank if each == rank.rank else in_step(each) for each in range(4)]


def busy_in_step(rank, *call, **more):
    """The same for a rank whose program computes."""
    return in_step(rank, *call, **{"process_state": "R", "cpu_percent": 99.0, **more})


def after_step(call="jit(step)", number=4, **more):
    """A program of JAX that a rank has left."""
    group = {"group": "0-3~jax", "site": "In[5]:4"}
    return view(call, number, 0.1, is_running=False, **{**group, **more})


LOAD = ("In[5]:3: batch = load_batch(k)", "In[2]:9 load_batch: return [f(x) for x in rows]")

WAYS_TO_WAIT = {
    "a rank sleeps": ("In[5]:3: time.sleep(60)",),
    "a rank waits without computing": ("In[5]:3: x = device.read_out()",),
    "a rank waits for a lock of its cell": ("In[5]:3: lock.acquire()",),
    "a rank waits for a semaphore": ("In[5]:3: slots.acquire()", *LOCK),
    "a rank waits for a thread to end": (
        "In[5]:3: thread.join()",
        f"{PYTHON}/threading.py:1119 join",
    ),
    "a rank waits for a queue": (
        "In[5]:3: item = todo.get()",
        f"{PYTHON}/queue.py:171 get",
        LOCK[0],
    ),
    "a rank waits for another program": (
        "In[5]:3: subprocess.run(['make', 'data'])",
        f"{PYTHON}/subprocess.py:550 run",
        f"{PYTHON}/subprocess.py:1264 wait",
    ),
    "a rank reads from a socket": (
        "In[5]:3: page = urlopen(url)",
        f"{PYTHON}/http/client.py:1395 getresponse",
        f"{PYTHON}/socket.py:706 readinto",
    ),
    "a rank waits for a DataLoader": (
        "In[5]:3: for batch in loader:",
        f"{PACKAGES}/torch/utils/data/dataloader.py:1295 _get_data",
        f"{PYTHON}/multiprocessing/queues.py:113 get",
        f"{PYTHON}/multiprocessing/connection.py:257 poll",
        f"{PYTHON}/selectors.py:415 select",
    ),
    "a rank is in the debugger": (
        "In[5]:3: work()",
        f"{PYTHON}/bdb.py:90 trace_dispatch",
        f"{PYTHON}/pdb.py:359 interaction",
        f"{PYTHON}/cmd.py:126 cmdloop",
    ),
}
"""Stacks of ranks that others wait for."""

SITUATIONS = {
    "a rank finished the cell": waiting_for(ended(2)),
    "a rank finished the cell from another line": waiting_for(ended(2, collective=BEFORE)),
    "two ranks finished the cell from another line": [
        inside(0),
        *(ended(rank, collective=BEFORE) for rank in (1, 2)),
        inside(3),
    ],
    "a rank raised": waiting_for(ended(2, "raised", error="ValueError: boom")),
    "a rank is lost": waiting_for(ended(2, "lost", error="its process was killed")),
    "a rank was interrupted": waiting_for(ended(2, "interrupted")),
    "a rank does not run this cell": [inside(0, group="0,2"), computing(1)],
    "one rank alone in a barrier of a subset": [
        inside(0),
        inside(1, "barrier", 3, group="1-2"),
        ended(2),
        inside(3),
    ],
    "ranks called different collectives": [
        inside(0),
        inside(1),
        inside(2, "barrier", 17, 11.0, site="In[5]:9"),
        inside(3),
    ],
    "ranks called the same collective with different arguments": [
        inside(0, arguments="float32[4], sum"),
        inside(1, arguments="float32[8], sum"),
    ],
    "ranks are in different calls for a moment": [inside(0), inside(1, number=18, seconds=0.3)],
    "ranks wait for each other in two groups": [
        inside(0, number=3, group="0-1"),
        inside(1, number=8, group="1-2", site="In[5]:8"),
        inside(2, "barrier", 5, group="0,2", site="In[5]:9"),
    ],
    "ranks wait for ranks that wait for one that has finished": [
        inside(0, number=3, group="0-1"),
        inside(1, number=8, group="1-2", site="In[5]:8"),
        ended(2),
    ],
    "two groups, each with its own missing rank": [
        inside(0, group="0-1"),
        computing(1, "In[5]:3: work()"),
        inside(2, group="2-3"),
        ended(3),
    ],
    "a send that nobody receives": [
        inside(0, "send", 4, arguments="float32[4], dest=1", root=1),
        ended(1),
        computing(2),
    ],
    "a recv whose sender does something else": [
        inside(0, "recv", 4, arguments="float32[4], source=1", root=1),
        computing(1, "In[5]:3: work()"),
    ],
    "two ranks send to each other, and nobody receives": [
        inside(0, "send", 4, arguments="float32[9], dest=1", root=1),
        inside(1, "send", 6, arguments="float32[9], dest=0", root=0, site="In[5]:9"),
    ],
    "a send that is being received": [
        inside(0, "send", 4, seconds=5.0, arguments="float32[9], dest=1", root=1),
        inside(1, "recv", 6, seconds=5.0, arguments="float32[9], source=0", root=0),
    ],
    "a rank waits for a person": waiting_for(resting(2, LOAD[0], asks="waits for input")),
    "a rank waits for a person, and others wait to ask": [
        seen(1, asks="waits to ask for input"),
        seen(2, asks="waits for input"),
        seen(3, asks="waits to ask for input"),
        inside(0, seconds=0.5),
    ],
    "a rank waits for a person, and no other runs": [
        ended(0),
        resting(1, "In[5]:3: input()", asks="waits for input", stack_s=60.0),
    ],
    "a rank has said that it is in the debugger": waiting_for(seen(2, stopped_at="In[5]:4")),
    "two ranks are in the debugger, and one waits for another one that has ended": [
        inside(0),
        inside(1, group="1,4"),
        seen(2, stopped_at="In[5]:4"),
        seen(3, stopped_at="/home/me/train.py:12"),
        ended(4, "raised", error="ValueError: boom"),
    ],
    "all ranks are in the debugger": [seen(rank, stopped_at="In[5]:4") for rank in range(4)],
    "a rank has not come, and nobody has looked what it does": waiting_for(seen(2)),
    "a straggler still computes, and nobody has looked where": waiting_for(computing(2)),
    "a straggler still computes": waiting_for(computing(2, *LOAD)),
    "a straggler has computed on one line for long": waiting_for(
        computing(
            2, "In[5]:3: x = fit(data)", "/home/me/train.py:12 fit: w += step(w)", stack_s=14.0
        )
    ),
    "two stragglers": [
        inside(0),
        computing(1, *LOAD),
        computing(2, *LOAD),
        inside(3),
    ],
    **{name: waiting_for(resting(2, *stack)) for name, stack in WAYS_TO_WAIT.items()},
    "native code computes and holds the interpreter": waiting_for(
        computing(2, "In[5]:3: n = 3**9000000", is_unresponsive=True)
    ),
    "native code waits and holds the interpreter": waiting_for(
        resting(2, "In[5]:3: ctypes.PyDLL(None).sleep(8)", is_unresponsive=True)
    ),
    "native code holds the interpreter, and nobody saw where": waiting_for(
        computing(2, is_unresponsive=True)
    ),
    "a process is stopped": waiting_for(seen(2, process_state="T", process_state_s=3.0)),
    "a process is stopped inside the collective": [
        inside(0),
        inside(1),
        inside(2, process_state="T", process_state_s=3.0, silence_s=3.5),
    ],
    "two processes are stopped, nobody waits": [
        computing(0),
        seen(1, process_state="T", process_state_s=3.0),
        seen(2, process_state="T", process_state_s=3.0),
    ],
    "a process is stopped for a moment by a profiler": [
        computing(0),
        seen(1, process_state="T", process_state_s=0.5),
    ],
    "a rank waits for a disk": waiting_for(
        seen(2, "In[5]:3: data = path.read_bytes()", process_state="D", process_state_s=4.0)
    ),
    "a rank's memory comes back from swap": waiting_for(
        seen(2, "In[5]:3: x.sum()", process_state="D", major_faults_per_s=850.0)
    ),
    "a host is cut off": [
        *(inside(rank, seconds=5.0) for rank in range(4)),
        *(inside(rank, seconds=1.0, silence_s=5.0) for rank in range(4, 8)),
    ],
    "a host is cut off while all compute": [
        computing(3),
        *(computing(rank, silence_s=4.0) for rank in range(4, 8)),
    ],
    "one rank of a host is silent": [inside(0), inside(1), seen(2, silence_s=6.0)],
    "forming a communicator waits for one rank": [
        resting(0, *INIT),
        resting(1, *INIT),
        resting(2, "In[4]:1: time.sleep(60)"),
        resting(3, *INIT),
    ],
    "a collective of JAX waits for a rank that has finished": [
        resting(0, *JAX),
        resting(1, *JAX),
        ended(2),
        resting(3, *JAX),
    ],
    "a collective of torch waits for a rank that is elsewhere": [
        computing(0, *TORCH),
        computing(1, *TORCH),
        resting(2, "In[5]:3: lock.acquire()"),
    ],
    "one rank of four is in a collective of torch, and all others have finished": [
        resting(0, *TORCH),
        *map(ended, (1, 2, 3)),
    ],
    "one rank of four is in a collective of torch, and another one still runs": [
        resting(0, *TORCH),
        *map(ended, (1, 2)),
        computing(3, *LOAD),
    ],
    "one rank of four receives by torch what no one has sent": [
        resting(0, "/home/me/train.py:16: dist.recv(part, src=source)"),
        *map(ended, (1, 2, 3)),
    ],
    "a program has ended early by sys.exit": waiting_for(
        ended(2, error="sys.exit(0) at train.py:13")
    ),
    "a program waits in another file": waiting_for(
        resting(
            2,
            "/home/me/train.py:40: import solver",
            "/home/me/solver.py:2: connect()",
            f"{PYTHON}/socket.py:706 readinto",
        )
    ),
    "three ranks wait in JAX, one still computes": [
        *(resting(rank, *JAX, stack_s=11.0) for rank in range(3)),
        computing(3, *LOAD),
    ],
    "three ranks wait in JAX, of one nothing is known": [
        *(resting(rank, *JAX, stack_s=11.0) for rank in range(3)),
        seen(3),
    ],
    "all ranks are in the same call of JAX": [resting(rank, *JAX) for rank in range(4)],
    "a program of JAX waits for a rank that has finished": in_step_for(
        ended(2, collective=after_step())
    ),
    "a program of JAX waits for a rank that raised": in_step_for(
        ended(2, "raised", error="ValueError: boom", collective=after_step())
    ),
    "a program of JAX waits for a rank that still computes": in_step_for(
        computing(2, *LOAD, collective=after_step())
    ),
    "a program of JAX waits for a rank that sleeps": in_step_for(
        resting(2, "In[5]:3: time.sleep(60)", collective=after_step())
    ),
    "one rank alone has called a program of JAX": [in_step(0), ended(1), ended(2), ended(3)],
    "ranks have called different programs of JAX": in_step_for(
        in_step(2, operation="jit(evaluate)", site="In[5]:9")
    ),
    "ranks have called a program of JAX with different arrays": [
        in_step(0, group="0-1~jax", arguments="float32[4]"),
        in_step(1, group="0-1~jax", arguments="float32[8]"),
    ],
    "a rank is one program of JAX behind the others, and computes there": [
        in_step(0, 6),
        in_step(1, 6),
        busy_in_step(2, 5, "jit(prepare)", site="In[5]:4"),
        in_step(3, 6),
    ],
    "ranks compute in a program of JAX that one rank has never called": [
        busy_in_step(0),
        busy_in_step(1),
        ended(2),
        busy_in_step(3),
    ],
    "all ranks compute in a program of JAX for long": [busy_in_step(rank) for rank in range(4)],
    "all ranks are in a program of JAX for long, and one still computes": [
        in_step(0),
        in_step(1),
        busy_in_step(2),
        in_step(3),
    ],
    "a program of JAX waits for a rank that computes in one of its own": in_step_for(
        computing(2, *JIT, collective=after_step())
    ),
    "all ranks are in a program of JAX for long, and none computes": [
        in_step(rank) for rank in range(4)
    ],
    "a rank of a program of JAX sits in a collective of ours": in_step_for(
        inside(2, "barrier", 3, site="In[5]:9")
    ),
    "ranks wait for each other, and one computes in a program of JAX": [
        in_step(0, 5, group="0-1~jax"),
        inside(1, "barrier", 3, site="In[5]:9"),
        busy_in_step(2, 1, "jit(solve)", group="2-3~jax"),
        inside(3, "barrier", 3, site="In[5]:9"),
    ],
    "a collective of torch waits for a rank that has finished": [
        inside(0, "all_reduce", 3, group="0-1~torch"),
        ended(1),
    ],
    "a broadcast of torch waits for a root that may have left it": [
        computing(0, collective=view("barrier", 2, 0.1, is_running=False, **SPLIT)),
        inside(1, "broadcast", 3, group="0-2~torch"),
        inside(2, "broadcast", 3, group="0-2~torch"),
    ],
    "forming JAX's mesh waits for one rank": [
        resting(0, SETUP),
        resting(1, SETUP),
        resting(2, "In[4]:1: time.sleep(60)"),
        resting(3, SETUP),
    ],
    "packets are lost one way, ranks are one call apart": [
        inside(0, number=18),
        *(inside(rank) for rank in (1, 2, 3, 4)),
        inside(5, number=18),
    ],
    "packets are lost from one host to another": [
        *(inside(rank, number=18) for rank in range(4)),
        *(inside(rank) for rank in (4, 5)),
    ],
    "packets are lost on one of the ways between three hosts": [
        *(inside(rank, number=18) for rank in (0, 1)),
        *(inside(rank, number=18, host="c") for rank in (2, 3)),
        *(inside(rank, awaits=(0, 1)) for rank in (4, 5)),
    ],
    "ranks one call apart, of which some still compute": [
        inside(0, number=18),
        inside(1, cpu_percent=99.0),
    ],
    "all are in the same collective for long": [inside(rank) for rank in range(4)],
    "all are in the same collective": [inside(rank, seconds=6.0) for rank in range(4)],
    "the root has left, the others still receive": [
        computing(0, collective=view("broadcast", seconds=0.1, is_running=False)),
        inside(1, "broadcast"),
        inside(2, "broadcast"),
    ],
    "a rank that is elsewhere may have left already": [
        computing(
            0, "In[5]:9: work()", collective=view("barrier", 2, 0.1, is_running=False, **SPLIT)
        ),
        inside(1, "broadcast"),
        inside(2, "broadcast"),
    ],
    "the root has finished after one more call, the others still receive": [
        ended(0, collective=view("barrier", 2, 0.1, is_running=False, **SPLIT)),
        inside(1, "broadcast"),
        inside(2, "broadcast"),
    ],
    "a rank waits for a lock, and nobody waits for it": [
        ended(0),
        resting(1, "In[5]:3: lock.acquire()", stack_s=12.0),
    ],
    "a wait that is not long enough": [inside(0, seconds=2.9), computing(1)],
    "all ranks compute": [computing(rank, *LOAD) for rank in range(4)],
    "one rank still computes, the others have finished": [ended(0), ended(1), computing(2, *LOAD)],
    "all ranks have finished": [ended(0), ended(1)],
    "a rank runs a task of ipyparallel first": waiting_for(
        computing(2, task="apply f", task_s=12.0)
    ),
    "a rank runs a task first, and nobody waits for it yet": [
        ended(0),
        ended(1),
        computing(2, task="apply f", task_s=12.0),
    ],
    "two ranks run a task first, and one has just begun another cell": [
        computing(0, task="execute", task_s=8.0),
        computing(1, task="execute", task_s=8.0),
        computing(2, task="apply f", task_s=0.5, busy_s=0.6),
        computing(3),
    ],
    "a rank runs a task with braces in its name": waiting_for(
        computing(2, task="apply {f}", task_s=4.0)
    ),
    "a complete group waits, and another one has just begun to": [
        *(inside(rank, seconds=6.0, group="0-1") for rank in range(2)),
        inside(2, seconds=1.0, group="2-3"),
        computing(3),
    ],
    "a rank that is lost left a record of a call": [inside(0, status="lost"), computing(1)],
    "the name of a group was shortened": [
        inside(0, seconds=5.0, group="0,2,4…196,198"),
        computing(1),
    ],
    "two groups of the same ranks are different groups": [
        inside(0, group="0-1"),
        inside(1, group="0-1~2"),
    ],
    "groups that are complete do not contradict each other": [
        inside(0, number=0, seconds=5.0, group="0-1"),
        inside(1, number=0, seconds=5.0, group="0-1"),
        inside(2, number=1, seconds=5.0, group="2-3"),
        inside(3, number=1, seconds=5.0, group="2-3"),
    ],
    "ranks sit in a complete group, and others wait for them": [
        inside(0, group="0-1"),
        inside(1, group="0-1"),
        inside(2),
        inside(3),
    ],
    "messages of many ranks to one": [
        ended(0),
        inside(1, "recv", 1, root=0, arguments="source=0"),
        inside(2, "recv", 2, root=0, arguments="source=0"),
    ],
    "messages both ways are not guessed at": [
        inside(0, "send_recv", seconds=5.0, root=1),
        inside(1, "send_recv", seconds=5.0, root=0),
    ],
    "groups of messages both ways are not guessed at": [
        inside(0, "group", seconds=5.0, root=1),
        inside(1, "group", seconds=5.0, root=0),
    ],
    "numbers of collectives of arrays and of objects are not compared": waiting_for(
        computing(2, collective=view("barrier_object", 40, 0.1, is_running=False))
    ),
    "two ranks wait in JAX, and an interrupt may not reach them": [
        resting(0, *JAX),
        ended(1),
        resting(2, *JAX),
    ],
    "numbers of an earlier communicator mean nothing for who computes": waiting_for(
        computing(2, collective=EARLIER)
    ),
    "numbers of an earlier communicator mean nothing for who has ended": waiting_for(
        ended(2, collective=EARLIER)
    ),
    "code with braces, and long code": waiting_for(
        computing(2, "In[5]:3: x = {k: f'{k}' for k in range(10_000_000)}")
    ),
    "an idle rank is not said to compute": waiting_for(seen(2, "In[5]:3: f()")),
    "a line that computes does not wait for the lock that it names": waiting_for(
        computing(2, "In[5]:3: with lock: work()")
    ),
    "a data set is read in the rank itself": waiting_for(
        computing(
            2,
            *LOAD,
            f"{PACKAGES}/torch/utils/data/dataloader.py:789 _next_data",
            "In[2]:4 __getitem__: decode(path)",
        )
    ),
    "user code in a file with a name of Python's": waiting_for(
        computing(2, *LOAD, "/home/me/queue.py:9 get: sort(rows)")
    ),
    "processes are stopped on several hosts": [
        seen(3, process_state="T", process_state_s=3.0),
        seen(4, process_state="T", process_state_s=3.0),
        computing(5),
    ],
    "a rank is silent, and another one of its host is not": [
        seen(4, silence_s=5.0),
        computing(5),
    ],
    "a rank raised with much to say": waiting_for(
        ended(2, "raised", error="ValueError: {be}\n" + 200 * "x")
    ),
}
