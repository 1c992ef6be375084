import psutil
import pytest

from jupyter_dist.probe.machine import count_numa_nodes, sample_load


@pytest.mark.parametrize(
    ("text", "count"), [("0-1", 2), ("0", 1), ("0-3,8-11", 8), ("0,2", 2), ("", 0)]
)
def test_numa_nodes_with_cores_are_counted(tmp_path, text, count):
    folder = tmp_path / "devices" / "system" / "node"
    folder.mkdir(parents=True)
    (folder / "has_cpu").write_text(f"{text}\n")
    assert count_numa_nodes(tmp_path) == count


def test_a_system_that_does_not_tell_has_an_unknown_number(tmp_path):
    assert count_numa_nodes(tmp_path) == 0


def test_the_memory_in_use_is_what_is_not_available():
    load = sample_load()
    assert 0 < load.memory_used_bytes < psutil.virtual_memory().total
    assert 0 <= load.cpu_percent <= 100
