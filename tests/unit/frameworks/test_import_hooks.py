import importlib
import importlib.util
import sys

import pytest

from jupyter_dist.frameworks.import_hooks import ImportHooks


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two modules that can be imported: heavy, and heavy.part."""
    package = tmp_path / "heavy_for_hooks"
    package.mkdir()
    (package / "__init__.py").write_text("from heavy_for_hooks.part import value as value\n")
    (package / "part.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "heavy_for_hooks"
    for name in [name for name in sys.modules if name.startswith("heavy_for_hooks")]:
        del sys.modules[name]


@pytest.fixture
def hooks():
    made = ImportHooks()
    made.install()
    yield made
    sys.meta_path.remove(made)


def test_we_are_told_before_others_take_names_from_a_module(modules, hooks):
    hooks.after(f"{modules}.part", lambda part: setattr(part, "value", 2))
    assert importlib.import_module(modules).value == 2


def test_a_module_that_is_there_already_is_told_at_once(modules, hooks):
    module = importlib.import_module(modules)
    told = []
    hooks.after(modules, told.append)
    assert told == [module]


def test_a_module_keeps_its_own_loader(modules, hooks):
    hooks.after(modules, lambda _: None)
    module = importlib.import_module(modules)
    assert type(module.__loader__).__name__ == "SourceFileLoader"
    assert module.__spec__.loader is module.__loader__
    assert importlib.reload(module).value == 1


def test_what_is_called_before_may_refuse_the_import_each_time(modules, hooks):
    def refuse():
        raise RuntimeError("not here")

    hooks.before(modules, refuse)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not here"):
            importlib.import_module(modules)
    assert modules not in sys.modules


def test_what_is_called_before_is_called_once(modules, hooks):
    calls = []
    hooks.before(modules, lambda: calls.append("before"))
    hooks.after(modules, lambda _: calls.append("after"))
    importlib.import_module(modules)
    importlib.reload(sys.modules[modules])
    assert calls == ["before", "after"]


def test_a_module_that_is_not_there_is_missing_as_ever(hooks):
    hooks.after("surely_not_there", lambda _: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("surely_not_there")


def test_who_wants_to_know_is_told_after_an_import_that_failed_before(modules, hooks, tmp_path):
    part = tmp_path / modules / "part.py"
    source = part.read_text()
    told = []
    hooks.after(f"{modules}.part", lambda _: told.append("part"))
    part.write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module(modules)
    assert told == []
    part.write_text(source)
    importlib.import_module(modules)
    assert told == ["part"]


def test_a_module_that_is_only_looked_for_is_not_about_to_be_loaded(modules, hooks):
    calls = []
    hooks.before(modules, lambda: calls.append("before"))
    assert importlib.util.find_spec(modules) is not None
    assert calls == []
    importlib.import_module(modules)
    assert calls == ["before"]
