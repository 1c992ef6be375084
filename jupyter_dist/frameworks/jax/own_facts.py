"""What one rank can say of itself before it meets the others: versions, wish, platforms."""

from collections.abc import Callable

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.jax import private_runtime
from jupyter_dist.frameworks.jax.arguments import Wish


def look_at_myself(read: Callable[[], Wish]) -> tuple[Wish, str]:
    """Give what is asked for, and the versions here; raises FrameworkError, UsageError."""
    versions = import_jax()
    wish = read()
    unknown, known = private_runtime.find_unknown_platforms()
    if unknown:
        raise UsageError(
            f"jax_platforms names {', '.join(map(repr, unknown))}, and JAX has {', '.join(known)} "
            "here. Change JAX_PLATFORMS, or install the plugin for it."
        )
    return wish, versions


def import_jax() -> str:
    """Import JAX and give its versions; raises FrameworkError."""
    try:
        return private_runtime.find_versions()
    except ImportError as error:
        raise FrameworkError(
            f"JAX cannot be imported: {error}. Install it on that host too."
        ) from error
    except Exception as error:
        raise FrameworkError(
            f"JAX cannot be imported: {type(error).__name__}: {error}. What is installed of it "
            "there is broken, or of versions that do not fit: install jax and jaxlib anew."
        ) from error


def is_same(stands: Wish, asked: Wish) -> bool:
    """Say whether what stands is what is asked for; what is left out agrees with everything."""
    by_choice = (
        (stands.coordinator_address, asked.coordinator_address),
        (stands.local_device_ids, asked.local_device_ids),
        (stands.partition_index, asked.partition_index),
    )
    agrees = all(new in {"", None, old} for old, new in by_choice)
    ids = (asked.process_id, asked.num_processes)
    return agrees and ids == (stands.process_id, stands.num_processes)
