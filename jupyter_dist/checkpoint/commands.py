"""The commands by which a cluster saves, restores and lists variables of its ranks."""

from jupyter_dist.checkpoint.report import RankRestored, RankSaved
from jupyter_dist.checkpoint.table import RankFound
from jupyter_dist.options.checkpoint_request import (
    LookRequest,
    RestoreRequest,
    SaveRequest,
    WaitRequest,
)
from jupyter_dist.protocol.commands import CommandKind

SAVE = CommandKind("checkpoint.save", SaveRequest, RankSaved)
RESTORE = CommandKind("checkpoint.restore", RestoreRequest, RankRestored)
LOOK = CommandKind("checkpoint.look", LookRequest, RankFound)
WAIT = CommandKind("checkpoint.wait", WaitRequest, type(None))
"""Raises on a rank where what was being saved in the background is lost."""
