"""Warnings that stand at the user's own line, however deep in this package they arise."""

import contextlib
import sys
import warnings
from pathlib import Path

_OURS = (f"{Path(__file__).parent.parent}/", contextlib.__file__)


def warn_user(text: str) -> None:
    """Raise a RuntimeWarning at the innermost line that is not in this package."""
    frame = sys._getframe(1)  # noqa: SLF001  (inspect's is slower)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    # Without a registry: how often this is said is for the caller to decide.
    warnings.warn_explicit(text, RuntimeWarning, frame.f_code.co_filename, frame.f_lineno)
