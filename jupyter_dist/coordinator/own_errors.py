"""Defects of the coordinator itself: written down and told, and survived for the ranks' sake."""

import os
import sys
from collections.abc import Callable

FATAL = "JUPYTER_DIST_OWN_ERRORS"
"""A variable of the environment: with the value `fatal` each ends the coordinator, as in tests."""


class OwnErrors:
    """Logs and reports unexpected exceptions, so that the coordinator and its ranks go on."""

    def __init__(self, tell: Callable[[str], None], have_state: Callable[[], bool]) -> None:
        """`tell` shows a sentence to who watches the running cell; ranks may have no state yet."""
        self._tell, self._have_state = tell, have_state
        self._known: set[str] = set()
        self.note = ""
        """About the last one; empty: there was none."""
        self.log_path = ""
        """Where all are written."""

    def survive(self, error: Exception) -> bool:
        """Write an error down and tell of it; of one that comes again nothing more is said.

        Return True. Raise it where none is to be survived.
        """
        if os.environ.get(FATAL) == "fatal" or not self._have_state():
            raise error
        import traceback  # which few coordinators ever need

        told = "".join(traceback.format_exception(error))
        if told in self._known:
            return True
        self._known.add(told)
        sys.stderr.write(told)
        site = traceback.extract_tb(error.__traceback__)[-1]
        self.note = (
            f"the coordinator has met a defect of its own: {type(error).__name__}: {error} "
            f"({os.path.basename(site.filename)}:{site.lineno}). The cluster goes on without what "
            f"was to be done there. Save what you need, and please report what {self.log_path} has"
        )
        self._tell(self.note)
        return True
