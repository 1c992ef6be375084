"""Programs that are not launched, because they would wait for ever or break others: why not."""

from collections.abc import Sequence

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.jax.launches.stale_refs import find_stale, list_names
from jupyter_dist.frameworks.jax.private import runtime as private_runtime
from jupyter_dist.frameworks.jax.private.programs import Program
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.model.hosts.rank import name_ranks


def refuse_stale(program: Program, generation: int, context: RankContext) -> None:
    """Raise FrameworkError for devices that JAX has given up when it was formed last."""
    if private_runtime.is_present(program.client):
        return
    devices = set(private_runtime.list_devices())
    arrays, places = find_stale(context.user_namespace(), devices)
    names = sorted({*arrays, *places})
    found = f" ({list_names(names)})" if names else ""
    raise FrameworkError(
        f"{program.name} uses arrays or a mesh of before generation {generation}{found}: JAX was "
        "formed again in it, and they belong to the mesh of before, which is gone. Make them "
        "again; np.asarray(w.addressable_data(0)), with one of these arrays as w, reads the "
        "part of this rank."
    )


def refuse_broken(program: Program) -> FrameworkError:
    """Return the error for a program that comes after one that was broken off."""
    return FrameworkError(
        f"{program.name} cannot run: JAX's collectives were broken off earlier in this "
        "cell. It is formed again on all ranks before the next cell."
    )


def refuse_strangers(program: Program, why: str) -> FrameworkError:
    """Return the error for devices that would look for each other at a service that is gone."""
    return FrameworkError(
        f"{program.name} cannot run: JAX's coordination service is gone ({why}), and only there "
        "could devices find each other that have not computed together before. JAX is formed again "
        "on all ranks before the next cell, with another service."
    )


def refuse_absent(program: Program, ranks: Sequence[int], context: RankContext) -> None:
    """Raise UsageError for a program of ranks that do not run this cell."""
    running = context.cell_ranks
    if not running or len(running) == context.info.world_size:
        return
    if absent := sorted(set(ranks) - set(running)):
        uses = f"{program.name} uses devices of {name_ranks(ranks)}"
        if context.is_in_task:
            raise UsageError(
                f"{uses}, and this task of ipyparallel runs on {name_ranks(running)} only. Run it "
                f"in a cell, on {name_ranks(absent)} as well, or use jax.local_devices() only."
            )
        raise UsageError(
            f"{uses}, and this cell runs on {name_ranks(running)} only. Run it on "
            f"{name_ranks(absent)} as well, or use jax.local_devices() only; %dist_heal replaces "
            "ranks that are lost."
        )
