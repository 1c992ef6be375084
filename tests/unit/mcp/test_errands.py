import threading
from types import SimpleNamespace

import pytest

from jupyter_dist.errors import HealFailed
from jupyter_dist.mcp.errands import FIRST_LABEL, MOST_KEPT, Errands

AT_ONCE, PATIENT_S = 0.0, 30.0


def test_what_is_quick_is_told_at_once():
    assert Errands().begin("demo", "heal", lambda: "healed", PATIENT_S) == "healed"


def test_what_takes_longer_goes_on_and_is_told_to_who_asks_again():
    errands, gate, begun = Errands(), threading.Event(), []

    def work():
        begun.append(1)
        assert gate.wait(PATIENT_S)
        return "healed"

    assert errands.begin("demo", "heal", work, AT_ONCE) == ""
    assert errands.begin("demo", "heal", work, AT_ONCE) == ""
    gate.set()
    assert errands.begin("demo", "heal", work, PATIENT_S) == "healed"
    assert begun == [1]
    assert errands.begin("demo", "heal", lambda: "again", PATIENT_S) == "again"


def test_what_goes_wrong_is_raised_once():
    errands = Errands()

    def fail():
        raise HealFailed("no place")

    with pytest.raises(HealFailed):
        errands.begin("demo", "heal", fail, PATIENT_S)
    assert errands.begin("demo", "heal", lambda: "healed", PATIENT_S) == "healed"


def cluster(*labels):
    return SimpleNamespace(outputs=lambda: [SimpleNamespace(label=label) for label in labels])


def test_numbers_of_agents_begin_behind_those_of_notebooks_and_are_not_taken_twice():
    errands = Errands()
    assert errands.new_label(cluster("In[3]", "notice")) == FIRST_LABEL
    assert errands.new_label(cluster()) == FIRST_LABEL + 1
    assert errands.new_label(cluster("In[10050]", "In[4]")) == 10_051


def test_so_many_cells_are_remembered_and_those_that_run_always():
    errands = Errands()
    for number in range(3 * MOST_KEPT):
        cell = SimpleNamespace(is_done=number > 0)
        errands.keep("demo", f"In[{number}]", cell, None)
    found = [n for n in range(3 * MOST_KEPT) if errands.find("demo", f"In[{n}]")]
    assert (found[0], len(found)) == (0, MOST_KEPT)
    assert errands.find("other", "In[0]") is None
