"""Options of a wrong type are named before anything is done: no object here is ever connected."""

import inspect
from pathlib import Path

import numpy as np
import pytest

from jupyter_dist.cluster.cluster import Cluster
from jupyter_dist.cluster.spec.typed_options import check_options
from jupyter_dist.errors import UsageError
from jupyter_dist.model.bench.bench_plan import BenchPlan
from jupyter_dist.protocol.commands import BENCH

SAMPLES = {
    "text": "x",
    "path": Path("x"),
    "whole": 7,
    "real": 0.5,
    "truth": True,
    "texts": ["x"],
    "numbers": (1, 2),
    "mapping": {"a": "x"},
    "numbered": {1: "x"},
    "function": print,
    "bytes": b"x",
    "object": object(),
    "type": int,
}
PATH, RANKS, CALL = "text path", "whole text numbers numbered", "function type"
ON = "text mapping"
TRANSFER = {"on_stage": CALL, "on_moved": CALL, "timeout_s": "whole real"}
RUN = {
    "stops": "",
    "code": "text",
    "ranks": RANKS,
    "timeout_s": "whole real",
    "label": "whole",
    "is_setup": "truth",
    "check": "truth",
    "on_error": "text",
    "on": ON,
    "one_answer": "truth",
    "tell_slowest": "truth",
    "watcher": "",
}
ACCEPTED = {
    "start": {
        "hosts": "text texts numbers",  # what is in it is told as what hosts can be
        **dict.fromkeys(("hostfile", "spec", "cwd", "wheelhouse", "save_on_preempt"), PATH),
        **dict.fromkeys(("template", "job_dir"), PATH),
        **dict.fromkeys(("name", "comm", "jax", "on_loss", "preempt_command", "python"), "text"),
        **dict.fromkeys(("interface", "ports", "start_method", "coordinator"), "text"),
        **dict.fromkeys(("launcher", "queue", "account", "scheduler", "job_name"), "text"),
        **dict.fromkeys(("timeout_s", "keep_s", "suspect_after_s"), "whole real"),
        **dict.fromkeys(("lost_after_s", "sample_interval_s", "time_limit_s"), "whole real"),
        **dict.fromkeys(("cpu_devices", "nodes", "slots"), "whole"),
        **dict.fromkeys(("oversubscribe", "tunnel", "install", "one_machine"), "truth"),
        "devices_per_engine": "whole text",
        "env": "mapping",
        "ssh": "text texts",
        "launcher_args": "texts",
        "on_progress": CALL,
    },
    "attach": {
        "name": "text",
        "watch": "truth",
        "take_over": "truth",
        "coordinator": "text",
        "ssh": "text texts",
        "python": "text",
    },
    "visit": {"name": "text", "await_ready": "truth"},
    "run": RUN,
    "run_in_background": RUN,
    "run_command": {
        "command": "",
        "ranks": RANKS,
        "label": "whole",
        "timeout_s": "whole real",
        "on_error": "text",
        "watcher": "",
    },
    "run_program": {
        "path": PATH,
        "arguments": "text texts",
        "ranks": RANKS,
        "timeout_s": "whole real",
        "is_module": "truth",
        "watcher": "",
    },
    "note_auto": {"is_on": "truth"},
    "interrupt": {"ranks": RANKS},
    "stop_ranks": {"ranks": RANKS},
    "listen_for_debuggers": {"listen": "text", "ranks": RANKS, "on": ON},
    "heal": {"ranks": RANKS, "on_stage": CALL},
    "shrink": {"on_stage": CALL},
    "push": {"objects": "mapping", "ranks": RANKS, "on": ON, **TRANSFER},
    "pull": {
        "name": "text",
        "ranks": RANKS,
        "on": ON,
        "kind": "type",
        "most_bytes": "whole",
        "cell_id": "text",
        **TRANSFER,
    },
    "select": {"ranks": RANKS, "on": ON},
    "name_axes": {"sizes": "text mapping", "order": "numbers"},
    "name_axes_of": {"mesh": "text"},
    "sync": {"paths": f"{PATH} texts", "reload": "truth", "force": "truth", "on_moved": CALL},
    "who": {"patterns": "text texts mapping", "ranks": RANKS, "largest": "whole"},
    "stacks": {"ranks": RANKS, "native": "truth"},
    "profile": {
        "seconds": "whole real",
        "ranks": RANKS,
        "mode": "text",
        "native": "truth",
        "on": ON,
    },
    "begin_profile": {"ranks": RANKS, "mode": "text", "native": "truth", "on": ON},
    "show_values": {"place": "text", "ranks": RANKS, "most_characters": "whole"},
    "allow_agents": {"may": "text texts mapping", "for_s": "whole real"},
    "revoke_grants": {"number": "whole"},
    "assist": {"who": "text", "grant": "text"},
    "complete": {"code": "text", "cursor": "whole", "rank": "whole"},
    "inspect": {"name": "text", "rank": "whole", "detail": "whole"},
    "collectives": {"last": "whole"},
    "timeline": {"path": PATH, "force": "truth"},
    "watch_topology": {"callback": CALL, "interval_s": "whole real"},
    "follow": {"watcher": "", "on_cell": CALL, "keeps_output": "truth"},
    "replay": {"label": "whole text", "since": "whole"},
    "checkpoint": {
        "name": "text",
        "variables": "text texts mapping",
        "directory": PATH,
        "everything": "truth",
        "keep_last": "whole",
        "wait": "truth",
        "cache": PATH,
    },
    "checkpoints": {"directory": PATH},
    "restore": {
        "name": "text",
        "variables": "text texts mapping",
        "directory": PATH,
        "step": "whole",
        "objects": "truth",
        "cache": PATH,
    },
}
GIVEN = {
    "run": {"code": "1"},
    "run_in_background": {"code": "1"},
    "run_command": {"command": BENCH.order(BenchPlan(), "a title")},
    "run_program": {"path": "x.py"},
    "push": {"objects": {}},
    "name_axes": {"sizes": "data=2"},
    "sync": {"paths": "."},
    "complete": {"code": "", "cursor": 0},
    "timeline": {"path": "x"},
    "watch_topology": {"callback": print},
    **{method: {"name": "x"} for method in ("pull", "inspect", "checkpoint")},
}
UNCHECKED = (
    *("bench", "from_ipyparallel", "from_workers", "ipyparallel", "running"),
    "follow_widgets",  # is called by our own view of cells
)
CASES = [
    (method, option, sample)
    for method, options in ACCEPTED.items()
    for option, accepted in options.items()
    for sample in SAMPLES
    if sample not in accepted.split()
]


def test_the_table_has_every_option_of_every_public_method():
    for name in dir(Cluster):
        found = inspect.getattr_static(Cluster, name)
        function = getattr(found, "__func__", found)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        options = list(inspect.signature(function).parameters)[1:]
        if name not in UNCHECKED:
            assert set(options) == set(ACCEPTED.get(name, ())), name


@pytest.mark.parametrize("method", ACCEPTED)
def test_every_value_of_a_wrong_type_is_an_error_that_names_the_option(method):
    unconnected = object.__new__(Cluster)
    for _, option, sample in (case for case in CASES if case[0] == method):
        with pytest.raises(UsageError) as caught:
            getattr(unconnected, method)(**{**GIVEN.get(method, {}), option: SAMPLES[sample]})
        said = str(caught.value)
        assert f"Cluster.{method}: {option} = " in said, (option, sample, said)
        assert "Accepted: " in said


def test_options_of_an_ipyparallel_start_are_looked_at_too():
    with pytest.raises(UsageError, match="from_ipyparallel: timeout_s = '5' "):
        Cluster.from_ipyparallel(None, timeout_s="5")


@check_options
class Told:
    """Gives back what it gets."""

    def tell(self, number: int, part: float = 1.0, texts: "list[str] | None" = None, *rest: int):
        return number, part, texts, rest


def test_numbers_of_other_libraries_become_those_of_python():
    number, part, *_ = Told().tell(np.int64(3), part=np.float32(0.5))
    assert (type(number), type(part)) == (int, float)
    # What has no type that can be looked up is let through.
    assert Told().tell(1, 2, 5, 6, 7) == (1, 2, 5, (6, 7))


def test_a_value_that_cannot_be_shown_is_named_by_its_type():
    class Shy:
        def __repr__(self):
            raise KeyError("no")

    with pytest.raises(UsageError, match=r"number = .*Shy"):
        Told().tell(Shy())


@pytest.mark.parametrize("odd", ["a\0b", "\udcff", Path("\udcff")])
@pytest.mark.parametrize("method", ["timeline", "sync", "checkpoints", "who", "push"])
def test_text_that_no_message_can_carry_is_an_error_that_names_the_option(method, odd):
    given = {"who": str(odd), "push": {str(odd): 1}, "sync": [odd, "fine"]}.get(method, odd)
    with pytest.raises(UsageError, match=rf"Cluster.{method}: \w+(\[0\])? = "):
        getattr(object.__new__(Cluster), method)(given)
