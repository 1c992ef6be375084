"""A profile as https://www.speedscope.app opens it: a profile for each rank. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from jupyter_dist.cluster.profiling.rank_times import SampledPart
from jupyter_dist.model.ranks.stacks import Frame

BEGINNING = b'{"exporter":"jupyter-dist profile"'
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def speedscope_pieces(samples: Mapping[int, Sequence[SampledPart]], name: str) -> Iterator[bytes]:
    """Yield the text of the file, rank by rank; its times are seconds since the first sample."""
    numbers: dict[Frame, int] = {}
    begin_ns = min((own[0].start_ns for own in samples.values() if own), default=0)
    profiles = [_describe(rank, own, begin_ns, numbers) for rank, own in samples.items() if own]
    frames = [_frame(frame) for frame in numbers]
    encode = msgspec.json.encode
    yield BEGINNING + b',"$schema":' + encode(_SCHEMA) + b',"name":' + encode(name)
    yield b',"shared":' + encode({"frames": frames})
    yield b',"profiles":' + encode(profiles) + b"}\n"


def _describe(
    rank: int, samples: Sequence[SampledPart], begin_ns: int, numbers: dict[Frame, int]
) -> dict[str, Any]:
    stacks = [
        [numbers.setdefault(frame, len(numbers)) for frame in sample.stack] for sample in samples
    ]
    return {
        "type": "sampled",
        "name": f"rank {rank}",
        "unit": "seconds",
        "startValue": (samples[0].start_ns - begin_ns) / 1e9,
        "endValue": (samples[-1].end_ns - begin_ns) / 1e9,
        "samples": stacks,
        "weights": [sample.seconds for sample in samples],
    }


def _frame(frame: Frame) -> dict[str, Any]:
    file, _, line = frame.site.rpartition(":")
    told: dict[str, Any] = {"name": frame.function, "file": file}
    return {**told, "line": int(line)} if line.isdecimal() else told
