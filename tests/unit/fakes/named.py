"""What ranks would tell of their variables."""

from jupyter_dist.model.ranks.variable_facts import NameInfo, RankNames


def number(name, value, **more):
    """A number, with its value."""
    told = {"nbytes": 28, "preview": str(value), "digest": str(value)}
    return NameInfo(name, type(value).__name__, **{**told, **more})


def array(name, shape="4", digest="", **more):
    """An array of 48 bytes, whose value is too long for one line."""
    told = {"dtype": "float32", "nbytes": 48, "digest": digest}
    return NameInfo(name, "ndarray", shape=shape, **{**told, **more})


def names(*infos, omitted=0, rss_mib=100):
    """One rank."""
    return RankNames(infos, omitted, rss_mib * 2**20)
