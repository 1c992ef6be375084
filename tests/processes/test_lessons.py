"""The lessons of the tutorial, and the pages for those who know another tool, say what comes out.

Blocks of `python` are cells, or a file where the first line is a comment with its name; blocks of `bash` are commands
of a terminal, blocks of `sh` and what is indented are not run. Lesson 2 is worked through in tests/hosts.
"""

from pathlib import Path

import pytest

from tests.reasons import WITHOUT_TORCH

from .leftovers import Home
from .lessons import reader_in, work_through
from .test_mpi import needs_mpich

DOCS = Path(__file__).parents[2] / "docs"
LESSONS = ("first_cell", "when_it_hangs", "jax_and_torch", "from_notebook_to_job")
OTHERS = ("ipyparallel", "torchrun", "mpirun", "matlab", "dask", "accelerate")
QUICK = ("first_cell", "ipyparallel", "mpirun", "matlab")
PACKAGES = {
    "jax_and_torch": ("jax", "torch"),
    "torchrun": ("torch",),
    "dask": ("distributed",),
    "accelerate": ("torch", "accelerate"),
}
"""What a page needs that is not always installed."""
FOLDERS = ("tutorial", "coming_from")
ELSEWHERE = {"index", "many_hosts"}
GRACE_S = 10.0
"""A notebook's kernel may still be ending when its client has returned."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where notebooks and files of a reader lie; nothing of a cluster may be left in the end."""
    home = Home(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        home.enter(monkeypatch)
        for variable in ("IPYTHONDIR", "TORCHINDUCTOR_CACHE_DIR"):
            monkeypatch.setenv(variable, str(tmp_path_factory.mktemp(variable)))
        yield tmp_path_factory.mktemp("reader")
        home.assert_nothing_left(GRACE_S)


@pytest.fixture(scope="module")
def notebook(folder):
    """One notebook for the pages about other tools; each of them starts and stops a cluster."""
    with reader_in(folder) as reader:
        yield reader


def page(name):
    """Mark what a page needs, and those that take long."""
    marks = [] if name in QUICK else [pytest.mark.slow]
    return pytest.param(name, marks=[*marks, needs_mpich] if name == "mpirun" else marks)


def skip_without_packages_of(name):
    for package in PACKAGES.get(name, ()):
        pytest.importorskip(package, reason=WITHOUT_TORCH if package == "torch" else None)


@pytest.mark.parametrize("lesson", [*map(page, LESSONS)])
def test_a_lesson_shows_what_comes_out(folder, lesson):
    skip_without_packages_of(lesson)
    with reader_in(folder) as reader:
        work_through(DOCS / "tutorial" / f"{lesson}.md", reader, folder)


@pytest.mark.parametrize("tool", [*map(page, OTHERS)])
def test_the_example_for_those_who_know_another_tool_shows_what_comes_out(notebook, folder, tool):
    skip_without_packages_of(tool)
    work_through(DOCS / "coming_from" / f"{tool}.md", notebook, folder)


def test_each_lesson_and_each_page_about_another_tool_is_worked_through():
    pages = {path.stem for name in FOLDERS for path in DOCS.glob(f"{name}/*.md")}
    assert pages == {*LESSONS, *OTHERS} | ELSEWHERE
