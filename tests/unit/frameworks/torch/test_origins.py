from jupyter_dist.frameworks.torch.origins import Origins


def test_each_variable_is_told_with_the_cell_that_has_set_it():
    environment = {"A": "1"}
    origins = Origins(("A", "B", "C"), environment)
    origins.enter_cell("In[1]")
    environment["B"] = "2"
    origins.enter_cell("In[2]")
    origins.enter_cell("In[3]")
    environment["C"] = "3"
    assert origins.describe(("A", "B", "C")) == (
        "A='1' (in os.environ since before the first cell) and B='2' (in os.environ since In[1]) "
        "and C='3' (in os.environ since In[3])"
    )


def test_a_variable_that_is_gone_is_not_told():
    environment = {"A": "1"}
    origins = Origins(("A",), environment)
    del environment["A"]
    assert origins.describe(("A",)) == ""
    origins.enter_cell("In[7]")
    environment["A"] = "1"
    assert origins.describe(("A",)) == "A='1' (in os.environ since In[7])"
