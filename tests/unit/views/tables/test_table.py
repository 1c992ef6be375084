"""What holds for every table: text in columns, and markup that brings all of its own style."""

import pytest
from fakes.bench_report import report_of
from fakes.named import names
from fakes.notebook import Page
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.collectives.collective_table import tabulate
from jupyter_dist.cluster.doctor.diagnosis import Diagnosis, Finding
from jupyter_dist.cluster.variables.names_table import tabulate_names
from jupyter_dist.model.bench.bandwidth import RankPath
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.model.ranks.variable_facts import NameInfo
from jupyter_dist.views.tables.bench_table import bench_html, bench_text
from jupyter_dist.views.tables.collectives_table import collectives_html, collectives_text
from jupyter_dist.views.tables.findings_table import findings_html, findings_text
from jupyter_dist.views.tables.stacks_table import stacks_html, stacks_text
from jupyter_dist.views.tables.table import head_html, wrap
from jupyter_dist.views.tables.variables_table import names_html, names_text

EVIL = "<i>\x1b[2J&"
PATHS = (RankPath(EVIL, EVIL, 1000), RankPath("b", EVIL, 1000))
CALLS = host("a", rank(0, call(EVIL, 1, 5, site=EVIL, dtype=EVIL, shape=EVIL)), rank(1))
FOUND = (Finding(EVIL, "ssh", "bad", EVIL, EVIL, EVIL),)
NAME = NameInfo("s", "str", preview=EVIL)
THREADS = tuple(
    ThreadStack(EVIL, is_main=is_main, frames=(Frame(EVIL, EVIL, EVIL),))
    for is_main in (True, False)
)
STACKS = {0: RankStacks(threads=THREADS, note=EVIL), 1: RankStacks("none", note=EVIL)}
TABLES = [
    (bench_html, bench_text, report_of(("reduce", 8, 1e-4, 0), hosts=(EVIL, "b"), paths=PATHS)),
    (collectives_html, collectives_text, tabulate([CALLS], {EVIL: EVIL}, 2, 20)),
    (findings_html, findings_text, Diagnosis((EVIL,), FOUND, {EVIL: {EVIL: EVIL}})),
    (stacks_html, stacks_text, STACKS),
    (names_html, names_text, tabulate_names({0: names(NAME)}, {1: EVIL})),
]


@pytest.mark.parametrize(("html_of", "text_of", "table"), TABLES)
def test_a_notebook_gets_html_with_its_own_style_and_text_that_moves_no_cursor(
    html_of, text_of, table
):
    markup, text = html_of(table), text_of(table)
    assert Page(markup).text
    assert "&lt;i&gt;" in markup
    for alien in ("<i>", "\x1b", "class=", "<style"):
        assert alien not in markup
    assert "\x1b" not in text


def test_long_text_is_wrapped_between_words_only():
    assert wrap("aa bb-bb cccccccccc", "  ", 8) == ["aa bb-bb", "  cccccccccc"]


def test_a_head_has_its_full_name_as_a_hint():
    assert head_html("#", title='"no"').endswith(' title="&quot;no&quot;">#</th>')
