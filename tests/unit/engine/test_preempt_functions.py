"""Which functions are called before a host is taken away, when cells are run again."""

import pytest

from jupyter_dist.engine.preemption import Preemption
from jupyter_dist.protocol.messages import NoticeHandled, PreemptNotice

DEFINE = "def tell():\n    called.append({number})\n"


class Model:
    """Something of a user with a method."""

    def __init__(self, name, called):
        self.name, self.called = name, called

    def save(self):
        """Note that it was called."""
        self.called.append(self.name)


@pytest.fixture
def preemption():
    return Preemption(lambda: 1, lambda _message: None)


def run_cell(code, called, name="<ipython-input-3-0123456789ab>"):
    """Run the code of a cell; gives its function."""
    space = {"__name__": "__main__", "called": called}
    exec(compile(code, name, "exec"), space)
    return space["tell"]


def call_all(preemption):
    for function in preemption._functions:
        function()


def test_a_function_whose_cell_is_run_again_takes_the_place_of_the_former_one(preemption):
    called = []
    for number in range(3):
        preemption.on_preempt(run_cell(DEFINE.format(number=number), called))
    preemption.on_preempt(lambda: called.append("last"))
    preemption.on_preempt(run_cell(DEFINE.format(number=3), called))
    call_all(preemption)
    assert called == [3, "last"]


def test_lambdas_closures_and_methods_of_several_objects_are_all_called(preemption):
    called = []

    def make(number):
        return lambda: called.append(number)

    def close_over(name):
        def tell():
            called.append(name)

        return tell

    first = Model("a", called)
    for function in (make(0), make(1), close_over("x"), close_over("y"), first.save):
        preemption.on_preempt(function)
    preemption.on_preempt(Model("b", called).save)
    preemption.on_preempt(first.save)
    call_all(preemption)
    assert called == [0, 1, "x", "y", "a", "b"]


@pytest.mark.parametrize("count", [3, 17])
def test_of_a_function_that_raises_the_line_in_its_cell_is_told(count, capsys):
    said = []
    preemption = Preemption(lambda: 1, said.append)
    code = "def tell():\n    return 1 / 0\n"
    preemption.on_preempt(run_cell(code, [], f"<ipython-input-{count}-0123456789ab>"))
    preemption.on_message(PreemptNotice(1, "b will be taken away", 30.0))
    preemption.handle(1, "b will be taken away", 30.0, saves_marked=False)
    preemption.leave_cell()
    (handled,) = (message for message in said if isinstance(message, NoticeHandled))
    raised = "tell() of on_preempt raised ZeroDivisionError: division by zero"
    assert handled.problems == (f"{raised} (line 2 of its cell)",)
    assert "ZeroDivisionError" in capsys.readouterr().err
