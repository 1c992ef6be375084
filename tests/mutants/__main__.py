"""Print how many small changes to a module its unit tests notice: `make mutants MODULE=...`."""

import sys
import tomllib
from pathlib import Path

import pytest
from plugin import Mutants

ROOT = Path(__file__).parents[2]


def tests_of(module: str) -> list[str]:
    """Return the files of tests that concern a module."""
    known = tomllib.loads(Path(__file__).with_name("tests.toml").read_text(encoding="utf-8"))
    package, _, name = module.rpartition("/")
    files = known.get(module, [f"{package}/test_{name}.py"])
    return [f"tests/unit/{file}" for file in files]


def main(module: str) -> int:
    """Run the tests of one module for each of its mutants."""
    path = ROOT / "jupyter_dist" / f"{module}.py"
    if not path.is_file():
        print(f"There is no module {path}. Name one as in MODULE=coordinator/fence.")
        return 2
    options = ["-qq", "-s", "--no-summary", "-p", "no:cacheprovider", "-o", "timeout=0"]
    return pytest.main([*options, *tests_of(module)], plugins=[Mutants(path)])


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("Name a module, as in: make mutants MODULE=coordinator/fence")
        sys.exit(2)
    sys.exit(main(sys.argv[1]))
