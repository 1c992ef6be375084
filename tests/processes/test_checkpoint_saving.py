"""Ranks of real clusters save together: all of it, or nothing on all of them."""

import os
import signal

import pytest

from jupyter_dist.checkpoint.format.part_file import PartReader
from jupyter_dist.checkpoint.storage.directory import find, latest

from .leftovers import wait_until
from .results import errors, outcome

GATE = """
import threading
from jupyter_dist.checkpoint.format.part_file import PartWriter
gate = threading.Event()
finish = PartWriter.finish
PartWriter.finish = lambda self: (gate.wait(), finish(self))[1]
"""
"""Holds a rank while it writes, until the gate opens."""
NO_GATE = """
if 'gate' in globals():
    PartWriter.finish = finish
    gate.set()
"""


@pytest.fixture
def place(tmp_path):
    """A directory that is not there yet."""
    return tmp_path / "checkpoints"


def arrays_of(checkpoint):
    """What each part holds of each leaf: bytes by path, then by the rank that wrote them."""
    parts = {part.name: part for part in checkpoint.manifest.files}
    found = {}
    for leaf in checkpoint.manifest.leaves:
        for entry in leaf.by_rank:
            for piece in getattr(entry, "pieces", ()):
                with PartReader(checkpoint.path / piece.file, parts[piece.file]) as reader:
                    found.setdefault(leaf.path, {})[piece.rank] = reader.read(piece).tobytes()
    return found


def layouts(checkpoint):
    return {
        leaf.path: next(entry.layout for entry in leaf.by_rank if entry is not None)
        for leaf in checkpoint.manifest.leaves
    }


def names_in(directory):
    return sorted(os.listdir(directory)) if directory.exists() else []


# --- what is saved ---------------------------------------------------------------------------


def test_what_all_ranks_have_alike_is_written_once(four, place):
    outcome(
        four,
        "import numpy as np\n"
        "tree = {'same': np.arange(1000), 'own': np.full(3, rank), 'n': 7, 'rank': rank,\n"
        "        'almost': np.where(np.arange(500_000) == 300_000, rank, 0)}\n"
        f"checkpoint.save({str(place / 'run')!r}, tree)",
    )
    saved = latest(place / "run")
    assert layouts(saved) == {
        "['same']": "replicated",
        "['own']": "per_rank",
        "['n']": "replicated",
        "['rank']": "per_rank",
        "['almost']": "per_rank",
    }
    written = arrays_of(saved)
    assert len(written["['same']"]) == 1
    assert sorted(written["['almost']"]) == [0, 1, 2, 3]
    assert (saved.step, saved.world_size, saved.manifest.is_shared) == (0, 4, True)


def test_a_large_array_of_all_ranks_is_written_in_parts_by_all(four, place):
    outcome(
        four,
        "import numpy as np\n"
        "big = np.arange(8_000_003, dtype='f8')\n"
        f"checkpoint.save({str(place)!r}, big)\n"
        "big = None",
    )
    (parts,) = arrays_of(latest(place)).values()
    assert sorted(parts) == [0, 1, 2, 3]
    sizes = [len(part) for part in parts.values()]
    assert sum(sizes) == 8 * 8_000_003
    assert max(sizes) - min(sizes) <= 8


def test_blocks_of_a_shard_lie_one_behind_the_other(four, place):
    outcome(
        four,
        "import numpy as np\n"
        "block = np.full((2, rank), rank, 'u1')\n"
        f"checkpoint.save({str(place)!r}, [checkpoint.Shard(block, axis=-1)])",
    )
    (leaf,) = latest(place).manifest.leaves
    (entry,) = leaf.by_rank
    assert (entry.shape, entry.layout) == ((2, 6), "sharded")
    boxes = {piece.rank: piece.box[1] for piece in entry.pieces}
    assert boxes == {0: (0, 0), 1: (0, 1), 2: (1, 3), 3: (3, 6)}


def test_steps_count_on_and_old_ones_go(four, place):
    code = f"[checkpoint.save({str(place)!r}, rank, keep_last=2).step for _ in range(4)]"
    assert outcome(four, code) == ["[0, 1, 2, 3]"] * 4
    assert names_in(place) == ["step-00000002", "step-00000003"]
    outcome(four, f"checkpoint.save({str(place)!r}, rank, step=40)")
    assert outcome(four, f"checkpoint.latest({str(place)!r}).step") == ["40"] * 4


def test_variables_are_saved_by_name_or_all_that_can_be(four, place):
    outcome(
        four,
        "import threading, numpy as np\n"
        "weights, step, lock, _hidden = np.ones(3), 5, threading.Lock(), 1\n"
        "block = np.full(2, rank)\n"
        "checkpoint.mark('block', axis=0)",
    )
    code = f"told = checkpoint.save_variables({str(place / 'all')!r})\n"
    outcome(four, code)
    assert outcome(four, "{'weights', 'step', 'block'} <= set(told['saved'])") == ["True"] * 4
    assert (
        outcome(four, "{'rank', 'comm', '_hidden', 'np', 'checkpoint'} & set(told['saved'])")
        == ["set()"] * 4
    )
    assert all("cannot pickle" in text for text in outcome(four, "told['left_out']['lock']"))
    saved = latest(place / "all")
    assert layouts(saved)["['block']"] == "sharded"
    assert dict(saved.manifest.marks) == {"block": 0}
    assert saved.manifest.kind == "variables"
    outcome(four, f"checkpoint.save_variables({str(place / 'two')!r}, ['step', 'weights'])")
    assert set(layouts(latest(place / "two"))) == {"['step']", "['weights']"}
    last = outcome(four, "checkpoint.last_variables")
    assert last == [repr(str(place / "two"))] * 4
    outcome(four, "checkpoint._marks.clear(); del lock, weights, step, block")


def test_the_manifest_has_the_cells_that_ran_before(start, place):
    cluster = start("localhost:2")
    outcome(cluster, "first = 1")
    cluster.checkpoint("run1", "first", directory=place.parent)
    cluster.checkpoints(place.parent)
    outcome(cluster, f"checkpoint.save({str(place)!r}, first)")
    cells = [cell.code for cell in latest(place).manifest.cells]
    assert cells == ["first = 1", f"checkpoint.save({str(place)!r}, first)"]


def test_nothing_is_waited_for_where_nothing_is_saved(four):
    assert outcome(four, "checkpoint.wait(0.01)") == [None] * 4


def test_saving_needs_no_data_path(start, place):
    cluster = start("localhost:2", comm="none")
    outcome(cluster, f"checkpoint.save({str(place)!r}, b'x' * (rank + 1))")
    assert [len(data) for data in next(iter(arrays_of(latest(place)).values())).values()] > [0]


def test_parts_are_kept_in_a_cache_too(four, place):
    code = (
        "import numpy as np\n"
        f"checkpoint.save({str(place / 'run')!r}, np.full(9, rank),"
        f" cache={str(place / 'cache')!r}).notes"
    )
    assert outcome(four, code) == ["()"] * 4
    saved = latest(place / "run")
    kept = place / "cache" / saved.manifest.id
    assert names_in(kept) == sorted(part.name for part in saved.manifest.files)


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("save(DIR, 1, step=-1)", "step=-1"),
        ("save(DIR, 1, step=1.5)", "step=1.5"),
        ("save(DIR, 1, keep_last=0)", "keep_last=0"),
        ("save(DIR, 1, timeout_s=0)", "timeout_s=0"),
        ("save('', 1)", "directory=''"),
        ("save(3, 1)", "directory=3"),
        ("save(DIR, 1, step=rank)", "step=0 on rank 0, but 1 on rank 1"),
        ("save(DIR, checkpoint.Shard(3))", "checkpoint.Shard got int"),
        ("save(DIR, checkpoint.Shard(np.ones(3), axis=1))", "axis=1"),
        ("save(DIR, np.ones(2) if rank else checkpoint.Shard(np.ones(2)))", "not on ranks 1-3"),
        ("save(DIR, [(_ for _ in ()) if rank == 2 else 0])", "[0]"),
        ("save_variables(DIR, ['nothing_like_it'])", "no variable 'nothing_like_it'"),
    ],
)
def test_what_cannot_be_meant_is_refused_on_all_ranks(four, place, call, said):
    code = f"import numpy as np\nDIR = {str(place / 'run')!r}\ncheckpoint.{call}"
    result = four.run(code)
    assert [rank.status for rank in result] == ["raised"] * 4
    assert all(said in error for error in errors(result)), errors(result)
    assert names_in(place / "run") == []


def test_some_ranks_alone_cannot_save(four, place):
    result = four.run(f"checkpoint.save({str(place)!r}, rank)", ranks=[0, 1])
    assert all("ranks 0-1 of 4" in error for error in errors(result))
    assert names_in(place) == []


def test_ranks_of_a_host_must_see_one_directory(four, place):
    place.mkdir()
    code = (
        f"import os\nbefore = os.getcwd(); os.chdir({str(place)!r})\n"
        "os.makedirs(f'of{rank % 2}', exist_ok=True); os.chdir(f'of{rank % 2}')\n"
        "try: checkpoint.save('run', rank)\n"
        "finally: os.chdir(before)"
    )
    result = four.run(code)
    assert all("localhost" in text and "different" in text for text in errors(result))
    assert [names_in(place / f"of{number}" / "run") for number in (0, 1)] == [[], []]


# --- what goes wrong on the way --------------------------------------------------------------


def test_what_fails_on_one_rank_fails_on_all_and_leaves_nothing(four, place):
    outcome(four, f"checkpoint.save({str(place)!r}, 'good')")
    code = (
        "import errno, os\n"
        "from jupyter_dist.checkpoint.format import block_writer\n"
        "class Full:\n"
        "    def __getattr__(self, name): return getattr(os, name)\n"
        "    def pwrite(self, *_): raise OSError(errno.ENOSPC, 'disk full')\n"
        "if rank == 2: block_writer.os = Full()\n"
        f"try: checkpoint.save({str(place)!r}, b'%d' % rank)\n"
        "finally: block_writer.os = os"
    )
    result = four.run(code)
    assert [rank.status for rank in result] == ["raised"] * 4
    assert all("disk full" in error for error in errors(result))
    assert all("rank 2: " in result[rank].error.evalue for rank in (0, 1, 3))
    assert names_in(place) == ["step-00000000"]
    assert outcome(four, f"checkpoint.save({str(place)!r}, 'next').step") == ["1"] * 4


@pytest.mark.slow
def test_a_rank_that_does_not_come_is_named(four, place, tmp_path):
    go = tmp_path / "go"
    code = (
        "import os, time\n"
        "if rank != 3:\n"
        "    comm.barrier('here', ranks=[0, 1, 2])\n"
        f"    try: checkpoint.save({str(place)!r}, rank, timeout_s=5)\n"
        f"    finally: open({str(go)!r} + str(rank), 'w').close()\n"
        f"while rank == 3 and not all(os.path.exists({str(go)!r} + str(i)) for i in range(3)):\n"
        "    time.sleep(0.05)"
    )
    result = four.run(code)
    assert all("rank 3 " in error and "checkpoint" in error for error in errors(result)[:3])
    assert names_in(place) == []


def test_an_interrupt_leaves_nothing(four, place, in_background):
    outcome(four, GATE)
    running = in_background(
        four.run, f"import numpy\ncheckpoint.save({str(place)!r}, numpy.full(3, rank))"
    )
    wait_until(lambda: len(list(place.glob(".saving-*/arrays-*"))) == 4, 10, "all are writing")
    four.interrupt()
    result = running.result(20)
    assert {rank.status for rank in result} == {"interrupted"}
    outcome(four, NO_GATE)
    assert outcome(four, f"checkpoint.save({str(place)!r}, 1).step") == ["0"] * 4
    assert names_in(place) == ["step-00000000"]


def test_a_lost_rank_ends_a_save_and_the_next_one_clears_up(start, place, in_background):
    cluster = start("localhost:3")
    outcome(cluster, f"checkpoint.save({str(place)!r}, 'good')")
    outcome(cluster, GATE, ranks=[0])
    running = in_background(
        cluster.run, f"import numpy\ncheckpoint.save({str(place)!r}, numpy.full(3, rank))"
    )
    wait_until(lambda: len(list(place.glob(".saving-*/arrays-*"))) == 3, 10, "all are writing")
    os.kill(cluster.topology().engines[0].pid, signal.SIGKILL)
    result = running.result(20)
    assert [rank.status for rank in result] == ["lost", "peer_failed", "peer_failed"]
    cluster.heal()
    assert outcome(cluster, f"checkpoint.save({str(place)!r}, 1).step") == ["1"] * 3
    assert names_in(place) == ["step-00000000", "step-00000001"]


# --- behind other cells ----------------------------------------------------------------------


def save_behind(cluster, directory):
    """Begin to save in the background; rank 1 is held until the gate opens."""
    outcome(cluster, GATE, ranks=[1])
    outcome(
        cluster,
        "import numpy as np\n"
        "array = np.full(5, rank)\n"
        f"saving = checkpoint.save({str(directory)!r}, array, wait=False)\n"
        "array[:] = 99",
    )


def test_cells_go_on_while_a_checkpoint_is_saved(four, place):
    save_behind(four, place)
    assert outcome(four, "comm.all_reduce(1); saving.is_done") == ["False"] * 4
    assert find(place) == []
    four.run("1 / 0")  # the ranks meet again before the next cell
    assert outcome(four, "int(comm.all_reduce(1))") == ["4"] * 4
    assert outcome(four, "saving.is_done") == ["False"] * 4
    outcome(four, NO_GATE, ranks=[1])
    assert outcome(four, "saving.wait().step") == ["0"] * 4
    saved = latest(place)
    (written,) = arrays_of(saved).values()
    numbers = {rank: set(data[::8]) for rank, data in written.items()}
    assert numbers == {rank: {rank} for rank in range(4)}
    assert all(text.startswith("<step 0 is saved") for text in outcome(four, "saving"))


def test_saves_behind_in_a_row_use_the_same_memory_and_mix_nothing(four, place):
    outcome(four, "large = np.zeros(1 << 18); large_too = np.zeros(1 << 18)")
    for step in range(4):
        outcome(
            four,
            f"large[:], large_too[:] = 10 * rank + {step + 1}, -10 * rank - {step + 1}\n"
            f"saving = checkpoint.save({str(place)!r}, [large, large_too], wait=False)\n"
            "large[:] = large_too[:] = 99",
        )
    outcome(four, "checkpoint.wait()")
    for step in range(4):
        code = f"found = checkpoint.restore({str(place)!r}, step={step})\n"
        found = outcome(four, code + "[set(each.tolist()) for each in found]")
        numbers = [10 * rank + step + 1 for rank in range(4)]
        assert found == [str([{float(each)}, {-float(each)}]) for each in numbers]


def test_a_second_save_waits_for_the_first(four, place):
    save_behind(four, place)
    result = four.run(f"checkpoint.save({str(place)!r}, 1, timeout_s=0.3)")
    assert all("step 0 " in error and " 0.3 s" in error for error in errors(result))
    outcome(four, NO_GATE, ranks=[1])
    assert outcome(four, f"checkpoint.save({str(place)!r}, 1).step") == ["1"] * 4


def test_a_save_that_fails_behind_cells_is_told_in_the_next_one(four, place):
    save_behind(four, place)
    outcome(four, "spoilt, finish = finish, lambda self: 1 / 0; gate.set()", ranks=[1])
    results = [four.run("saving._done.wait(20)"), four.run("pass")]
    told = "".join(rank.stderr for result in results for rank in result)
    assert told.count("checkpoint: step 0 ") == 4
    assert told.count("rank 1: ZeroDivisionError: ") == 3
    assert "background" not in "".join(rank.stderr for rank in four.run("pass"))
    outcome(four, "PartWriter.finish = spoilt", ranks=[1])
    assert names_in(place) == []


def test_a_lost_rank_ends_what_is_saved_behind_cells(start, place):
    cluster = start("localhost:3")
    save_behind(cluster, place)
    os.kill(cluster.topology().engines[1].pid, signal.SIGKILL)
    wait_until(lambda: cluster.status().ranks[1] == "lost", 10, "the loss is known")
    cluster.heal()
    result = cluster.run("saving.wait(20)", ranks=[0, 2])
    assert all("rank 1 was lost" in error for error in errors(result))
    assert outcome(cluster, f"checkpoint.save({str(place)!r}, 1).step") == ["0"] * 3
    assert names_in(place) == ["step-00000000"]
