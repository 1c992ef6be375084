"""Numbers of bytes: of memory, files and messages in KiB, MiB, GiB and TiB, everywhere.

Bandwidths alone are in GB/s, 1e9 bytes per second, as nccl-tests and makers of networks count.
"""

import re

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
_MEASURE = re.compile(r"[\d.]+(?: [KMGT]?i?B)?(?: of [\d.]+)? (?:s|[KMGT]?i?B)\b")
_UNITS = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))


def tell_size(count: float) -> str:
    """Return a number of bytes with three digits: `8 B`, `1.33 KiB`, `64 MiB`."""
    unit, name = _unit_of(count)
    return f"{three_digits(count / unit)} {name}"


def tell_part(part: float, whole: float) -> str:
    """Return a part of a number of bytes: `3.9 of 4 GiB`, `205 MiB of 4 GiB`."""
    amount, unit = tell_size(part).split()
    total, unit_of_total = tell_size(whole).split()
    return f"{amount if unit == unit_of_total else tell_size(part)} of {total} {unit_of_total}"


def three_digits(number: float) -> str:
    """Return a number with three digits at least, and no zeros after its point."""
    return f"{number:.0f}" if number >= 99.95 else f"{number:.3g}"


def without_measures(text: str) -> str:
    """Leave out all times and sizes: equal for what is said again with other numbers."""
    return _MEASURE.sub("", text)


def _unit_of(count: float) -> tuple[int, str]:
    """Return the largest unit of which there is one, once rounded: 1023.9 KiB are 1 MiB."""
    return next((pair for pair in _UNITS if count >= pair[0] * 0.9995), (1, "B"))
