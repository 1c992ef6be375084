"""A part of a variable as text, ranks with the same told together."""

from collections.abc import Mapping

import msgspec

from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.cluster.spec.checks import WantedRanks
from jupyter_dist.cluster.variables.rank_queries import NAMES_TIMEOUT_S, ask_ranks
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.options.value_place import read_place
from jupyter_dist.protocol.messages import ShowValue, ValueShown
from jupyter_dist.text.lists import group_pairs


class ShownValues(msgspec.Struct, frozen=True):
    """What ranks have at one place; `str()` tells ranks with the same together."""

    place: str
    texts: Mapping[int, str]
    """By rank: the type, and as much of the value as was asked for."""
    problems: Mapping[int, str]
    """Of ranks that have shown nothing, why."""

    def __str__(self) -> str:
        shown = group_pairs((text, rank) for rank, text in self.texts.items())
        lines = [f"{name_ranks(ranks)}: {text}" for text, ranks in shown.items()]
        missing = group_pairs((reason, rank) for rank, reason in self.problems.items())
        lines += [f"{name_ranks(ranks)}: not shown, {text}" for text, ranks in missing.items()]
        return "\n".join(lines)


def show_values(
    line: Connection, place: str, ranks: WantedRanks, most_characters: int
) -> ShownValues:
    """Ask ranks, busy or not; see `Cluster.show_values`."""
    read_place(place)
    answers, problems = ask_ranks(line, ShowValue(place, most_characters), ranks, NAMES_TIMEOUT_S)
    texts = {rank: each.text for rank, each in answers.items() if isinstance(each, ValueShown)}
    return ShownValues(place, texts, problems)
