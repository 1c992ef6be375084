from pathlib import Path

from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.launch.orchestrators.talk import read_order, write_order
from jupyter_dist.model.spec.batch import BatchSpec


def test_an_order_comes_through_whole_on_one_line():
    order = BatchOrder(
        cluster="a",
        spec=BatchSpec(system="kubernetes", nodes=2, template="kind: Pod\n"),
        join_path=Path("/run/a.join"),
        directory=Path("/run"),
        log_dir=Path("/log"),
        setup=("module load x",),
    )
    line = write_order(order)
    assert line.count(b"\n") == 1
    assert read_order(line) == order
