"""A notebook and a clock for views to stand in."""

import pytest
from fakes.notebook import Clock, Notebook


@pytest.fixture
def notebook():
    return Notebook()


@pytest.fixture
def clock():
    return Clock()
