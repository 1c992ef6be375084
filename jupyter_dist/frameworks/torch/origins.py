"""Since which cell variables of the environment have their values, for errors that they cause."""

from collections.abc import Iterable, Mapping


class Origins:
    """Compares the environment now and then; a change belongs to the cell since the last look."""

    def __init__(self, names: Iterable[str], environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._seen = {name: environment.get(name) for name in names}
        self._since: dict[str, str] = {}
        self._label = ""

    def enter_cell(self, label: str) -> None:
        """Note that a cell begins, as `In[3]`."""
        self._look()
        self._label = label

    def describe(self, names: Iterable[str]) -> str:
        """Return what these variables are and since when; empty: none of them is set."""
        self._look()
        return " and ".join(
            f"{name}={self._environment[name]!r} (in os.environ since {self._tell_since(name)})"
            for name in names
            if name in self._environment
        )

    def _tell_since(self, name: str) -> str:
        return self._since.get(name) or "before the first cell"

    def _look(self) -> None:
        for name, before in self._seen.items():
            value = self._environment.get(name)
            if value != before:
                self._seen[name], self._since[name] = value, self._label
