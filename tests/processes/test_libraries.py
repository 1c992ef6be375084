"""Libraries of others in cells: each cell of docs/how_to/libraries.md gives what the page says."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from jupyter_dist.model.hosts.rank import parse_ranks
from tests.reasons import WITHOUT_TORCH

from .conftest import SharedCluster
from .test_mpi import needs_mpich

PAGE = (Path(__file__).parents[2] / "docs" / "how_to" / "libraries.md").read_text()
WORLD_SIZE = 2
PACKAGES = {
    "accelerate": ("torch", "accelerate"),
    "Lightning": ("torch", "lightning"),
    "torch DCP": ("torch",),
    "torch FSDP2": ("torch",),
    "torch DTensor": ("torch",),
    "torch.distributed.breakpoint": ("torch",),
    "flax and optax": ("jax", "flax", "optax"),
    "orbax": ("jax", "orbax.checkpoint"),
    "mpi4py.futures": ("mpi4py",),
    "Legate": (),
}
"""What the cells of each section import; a library that is not installed is skipped."""
MARKS = {"mpi4py": needs_mpich, "torch": pytest.mark.slow, "jax": pytest.mark.slow}
"""What the first package of a section needs, or how long it takes."""
ALONE = (
    "import torch.distributed as dist\nif dist.is_initialized():\n    dist.destroy_process_group()"
)


class Cell(NamedTuple):
    """A cell of the page, and what it gives on each rank that gives something."""

    code: str
    said: dict[int, str]


def sections():
    """Give the cells of the page, by the heading above them."""
    parts = re.split(r"^## (.+)\n", PAGE, flags=re.MULTILINE)[1:]
    return {name: read_cells(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def read_cells(text):
    """Read cells, each with the lines below it."""
    found = re.findall(
        r"^```python\n%%spmd\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE
    )
    assert len(found) == text.count("```python"), "a cell without what it gives"
    return [Cell(code, read_lines(said)) for code, said in found]


def read_lines(said):
    """Read `[0-1] True` for each of these ranks."""
    lines = re.findall(r"^\[(.+?)\] (.+)$", said, re.MULTILINE)
    return {rank: line for ranks, line in lines for rank in parse_ranks(ranks, WORLD_SIZE)}


def assert_gives(result, said):
    """Compare what ranks gave or raised; a line that ends with … is a beginning."""
    for rank, each in enumerate(result):
        found = str(each.error) if each.error else each.value_repr
        expected = said.get(rank)
        if expected is not None and expected.endswith("…"):
            assert str(found).startswith(expected[:-1]), found
        else:
            assert found == expected


SECTIONS = sections()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Two ranks for all libraries, which work in a folder of the test."""
    folder = tmp_path_factory.mktemp("work")
    caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
    shared = SharedCluster(
        tmp_path_factory.mktemp("two"), f"localhost:{WORLD_SIZE}", cwd=str(folder), env=caches
    )
    yield shared
    shared.close()


def test_each_section_is_known():
    assert list(SECTIONS) == list(PACKAGES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=MARKS.get(packages[0], ()))
        for name, packages in PACKAGES.items()
        if packages
    ],
)
def test_the_cells_of_the_page_give_what_it_says(four, name):
    for package in PACKAGES[name]:
        pytest.importorskip(package, reason=WITHOUT_TORCH if package == "torch" else None)
    if "torch" in PACKAGES[name]:
        four.run(ALONE)
    for cell in SECTIONS[name]:
        assert_gives(four.run(cell.code, timeout_s=60), cell.said)
