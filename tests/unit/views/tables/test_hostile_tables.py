"""Tables, cards and pages hold whatever their messages let through: odd text, odd numbers."""

import json

from fakes.notebook import StrictNotebook
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dist.cluster.variables.names_table import tabulate_names
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.stacks import RankStacks
from jupyter_dist.model.ranks.variable_facts import RankNames
from jupyter_dist.protocol.messages import KeptCell
from jupyter_dist.protocol.plain_values import to_text
from jupyter_dist.server.page_messages import Clusters, TopologySeen
from jupyter_dist.server.summaries import row_of
from jupyter_dist.views.cell.crash_card import crash_html, crash_lines
from jupyter_dist.views.cell.display_place import Place
from jupyter_dist.views.tables.kept_cells import kept_cells_text, name_start
from jupyter_dist.views.tables.stacks_table import stacks_html, stacks_text
from jupyter_dist.views.tables.variables_table import names_html, names_text
from jupyter_dist.views.topology.changes import Teller
from jupyter_dist.views.topology.snapshot import topology_html, topology_text
from tests.rubbish import of_type

RANKS = st.integers(0, 5)
briefly = settings(max_examples=40)


def show(bundle):
    Place(StrictNotebook()).show(bundle)


@given(st.lists(of_type(CrashReport), max_size=2))
@briefly
def test_cards_of_lost_ranks(crashes):
    text = "\n".join(crash_lines(crashes, (1,)))
    show({"text/plain": text, "text/html": crash_html(crashes, (1,))})


@given(st.dictionaries(RANKS, of_type(RankStacks), max_size=2))
@briefly
def test_stacks(stacks):
    show({"text/plain": stacks_text(stacks), "text/html": stacks_html(stacks)})


@given(st.dictionaries(RANKS, of_type(RankNames), max_size=2))
@briefly
def test_variables(names):
    table = tabulate_names(names, {7: "\ud800"})
    show({"text/plain": names_text(table), "text/html": names_html(table)})


@given(st.lists(of_type(KeptCell), max_size=2))
@briefly
def test_cells_that_are_kept(cells):
    assert kept_cells_text(cells)
    assert all(map(name_start, cells))


@given(of_type(Topology))
@briefly
def test_the_picture_that_stays_and_what_pages_are_told(topology):
    show({"text/plain": topology_text(topology), "text/html": topology_html(topology)})
    told = Teller().tell(topology, 0.0)
    json.loads(to_text(TopologySeen(cluster="\ud800", told=told)).encode())
    json.loads(to_text(Clusters(clusters=(row_of(topology),))))
