"""What names ranks have in their namespaces, as far as it can be told without moving objects."""

import msgspec


class NameInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """One variable of one rank."""

    name: str
    type_name: str
    """As people write it: ndarray, dict, Trainer."""
    shape: str = ""
    """As `4,3` for arrays; `5 items` for containers; empty where it has none."""
    dtype: str = ""
    nbytes: int = -1
    """What it holds itself; -1 where that cannot be told cheaply."""
    preview: str = ""
    """Its value on one line, cut where it is long."""
    digest: str = ""
    """Equal on two ranks only if the values are; empty: not computed."""
    device: str = ""
    """As cuda:0, where it does not lie in the host's memory."""


class RankNames(msgspec.Struct, frozen=True, tag=True):
    """The variables of one rank, in the order in which they came to be."""

    names: tuple[NameInfo, ...]
    omitted: int = 0
    """How many more there are."""
    rss_bytes: int = 0
    """Memory of the rank's process."""
