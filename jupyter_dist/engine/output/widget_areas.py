"""Output areas of ipywidgets on a rank: what is printed there is the rank's own output.

So clearing such an area must not clear what the cell has said outside of it.
"""

import functools
from types import ModuleType
from typing import Any

from jupyter_dist.engine.shell.rank_shell import RankDisplayPublisher
from jupyter_dist.frameworks.import_hooks import ImportHooks


def watch_widgets(hooks: ImportHooks, publisher: RankDisplayPublisher) -> None:
    """Let the publisher know when a cell prints into an output area of ipywidgets."""
    hooks.after("ipywidgets.widgets.widget_output", lambda module: _teach(module, publisher))


def _teach(module: ModuleType, publisher: RankDisplayPublisher) -> None:
    area: Any = module.Output
    own_enter, own_exit = area.__enter__, area.__exit__

    @functools.wraps(own_enter)
    def enter(self: Any) -> Any:
        publisher.areas_entered += 1
        return own_enter(self)

    @functools.wraps(own_exit)
    def leave(self: Any, *error: Any) -> Any:
        publisher.areas_entered -= 1
        return own_exit(self, *error)

    area.__enter__, area.__exit__ = enter, leave
