"""What one variable is on each rank, ranks with the same together. Pure."""

from jupyter_dist.cluster.variables.name_differences import rank_groups
from jupyter_dist.cluster.variables.names_table import HERE, NamesTable
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.variable_facts import NameInfo
from jupyter_dist.text.columns import align, without_empty
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.sizes import tell_size

_HEADS = ("", "ranks", "type", "shape", "dtype", "device", "memory", "value", "digest")
_DIGEST_CHARACTERS = 8


def write_rank_table(name: str, found: NamesTable) -> str:
    """Return a table: who has it, as what; rows that are not as on most ranks are marked."""
    infos = found.infos.get(name, {})
    lines = [name]
    if infos:
        rows = {rank: "\0".join(_cells(info)) for rank, info in infos.items()}
        groups = rank_groups(rows)
        is_usual = 2 * len(groups[0][1]) > len(infos)
        marked = [HERE if index or not is_usual else "" for index in range(len(groups))]
        if len(groups) == 1:
            marked = [""]
        table = [
            (mark, name_ranks(ranks), *cells.split("\0"))
            for mark, (cells, ranks) in zip(marked, groups, strict=True)
        ]
        lines += align(without_empty([_HEADS, *table]))
    lacking = [rank for rank in found.ranks if rank not in infos]
    if lacking:
        lines.append(f"{HERE} {name_ranks(lacking)} {fit(lacking, 'lacks', 'lack')} it")
    return "\n".join([*lines, *found.notes])


def _cells(info: NameInfo) -> tuple[str, ...]:
    memory = tell_size(info.nbytes) if info.nbytes >= 0 else ""
    digest = info.digest[:_DIGEST_CHARACTERS]
    about = (info.type_name, info.shape, info.dtype, info.device)
    return (*about, memory, info.preview, digest)
