"""Whatever a program does to its rank, the cell ends with the truth, and everything else stays."""

import pytest

from tests.matrix import only

from . import ends, interpreter, output, shell

DEEDS = [
    *ends.EXITS,
    *ends.EXCEPTIONS,
    *output.VALUES,
    *output.STREAMS,
    *interpreter.BUILTINS,
    *interpreter.HOOKS,
    *interpreter.MODULES,
    *interpreter.SYSTEM,
    *shell.SHELL,
    *shell.TEXTS,
    *shell.NAMES,
    *shell.THREADS,
]
REFUSED = [deed for deed in DEEDS if deed.status == "refused"]
RUN = [deed for deed in DEEDS if deed.status != "refused"]


def test_names_are_not_used_twice():
    names = [deed.name for deed in DEEDS]
    assert len(set(names)) == len(names) >= 150


@pytest.mark.parametrize("deed", REFUSED, ids=lambda deed: deed.name)
def test_what_is_no_program_is_refused_before_any_rank_sees_it(deed, scene, in_background):
    with pytest.raises((SyntaxError, ValueError, RecursionError)) as refusal:
        scene.run(deed, in_background)
    assert deed.error in refusal.typename
    scene.assert_as_before()


@pytest.mark.parametrize("deed", only(RUN[::3], RUN), ids=lambda deed: deed.name)
def test_a_hostile_cell_ends_with_the_truth(deed, scene, in_background):
    rank = scene.run(deed, in_background)
    assert rank.status == deed.status, rank.error
    if deed.value is not None:
        assert rank.value_repr == deed.value
    if deed.error:
        assert deed.error in str(rank.error)
    assert deed.says in rank.stdout
    assert deed.repaired in rank.stderr
    scene.undo(deed)
    scene.assert_as_before(keeps_state=deed.keeps_state)
