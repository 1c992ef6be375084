from jupyter_dist.protocol.messages import KeptCell
from jupyter_dist.views.tables.kept_cells import kept_cells_text, name_start

OF_PERSON = KeptCell("cell-1", "In[3]", "x = 1", (0, 1), 0.0, is_running=False)
OF_AGENT = KeptCell("cell-2", "In[10001]", "x = 2", (0, 1), 0.0, is_running=True, by="AI agent x")


def test_a_cell_of_an_ai_agent_bears_its_name():
    _, first, second = kept_cells_text([OF_PERSON, OF_AGENT]).splitlines()
    assert ("AI agent" in first, "running, AI agent x" in second) == (False, True)
    assert " by AI agent x: x = 2" in name_start(OF_AGENT)
    assert " by " not in name_start(OF_PERSON)
