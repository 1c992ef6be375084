"""What ranks would tell of a profile; times in milliseconds of the host's clock."""

from fakes.recorded import MS, host, rank

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.profiling.profile import Gathered, Profile
from jupyter_dist.model.ranks.profiles import RankProfile
from jupyter_dist.model.ranks.stacks import Frame


def line(number, function="<module>", code="", file="In[1]"):
    """A call at a line of a file."""
    return Frame(function, f"{file}:{number}", code)


def sampled(*samples, began_ms=0, ended_ms=100, **more):
    """A profile of `(time, frame, ...)`: what was seen at that time, the outermost call first."""
    frames = list(dict.fromkeys(frame for _, *stack in samples for frame in stack))
    stacks = list(dict.fromkeys(tuple(stack) for _, *stack in samples))
    return RankProfile(
        "sampling",
        began_ms * MS,
        ended_ms * MS,
        frames=tuple(frames),
        stacks=tuple(tuple(map(frames.index, stack)) for stack in stacks),
        times_us=tuple((time - began_ms) * 1000 for time, *_ in samples),
        samples=tuple(stacks.index(tuple(stack)) for _, *stack in samples),
        **more,
    )


def every(step_ms, *stack, until_ms=100):
    """Samples that all see the same stack."""
    return [(time, *stack) for time in range(step_ms, until_ms + 1, step_ms)]


def idle_profile(mode):
    """A profile of two ranks that did nothing."""
    log = CollectiveLog((host("a", rank(0), rank(1)),), {}, 2)
    return Profile("demo", Gathered(mode, {0: sampled((100,)), 1: sampled((100,))}, {}), log)
