"""What a release says of itself is the same wherever it stands."""

import re
import tomllib

import pytest
import yaml

from jupyter_dist.version import __version__

from .sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())
RUN = RECIPE["requirements"]["run"]
CONDA_NAMES = {
    "jupyter-client": "jupyter_client",
    "jupyter-core": "jupyter_core",
    "xxhash": "python-xxhash",
}
"""Of packages that conda-forge calls otherwise."""


@pytest.mark.parametrize("name", ["CITATION.cff", "recipe/recipe.yaml"])
def test_the_version_stands_in_every_file_that_tells_it(name):
    told = re.findall(r"(?m)^ *version: (\d.*)$", (ROOT / name).read_text())
    assert told == [__version__]


def test_the_changelog_begins_with_this_version_or_something_waits_for_it():
    newest = re.findall(r"(?m)^## (\S+) \(", (ROOT / "CHANGELOG.md").read_text())[0]
    assert newest == __version__ or list((ROOT / "changes").glob("+*"))


def test_the_recipe_wants_what_the_wheel_wants():
    names = [re.split(r"(?=[<>=])", each, maxsplit=1) for each in PROJECT["dependencies"]]
    wanted = [f"{CONDA_NAMES.get(name, name)} {bounds}" for name, bounds in names]
    python = f"python {PROJECT['requires-python']}"
    told = [each.replace("${{ python_min }}", RECIPE["context"]["python_min"]) for each in RUN]
    assert told == ["__linux", python, *wanted]
