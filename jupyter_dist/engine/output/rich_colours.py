"""Colours of rich on a rank: its console sees no terminal there, though colours are shown."""

import functools
import sys
from types import ModuleType
from typing import Any

from jupyter_dist.engine.output.outputs import is_own_stream
from jupyter_dist.frameworks.import_hooks import ImportHooks


def watch_rich(hooks: ImportHooks) -> None:
    """Let consoles of rich that write to the rank's own streams colour what they print."""
    hooks.after("rich.console", _teach)


def _teach(module: ModuleType) -> None:
    console: Any = module.Console
    own_init = console.__init__

    @functools.wraps(own_init)
    def init(self: Any, **options: Any) -> None:
        has_chosen = options.get("color_system", "auto") != "auto" or "force_terminal" in options
        stream = sys.stderr if options.get("stderr") else sys.stdout
        if options.get("file") is None and not has_chosen and is_own_stream(stream):
            # It is still no terminal: what moves there with the cursor is printed once, at its end.
            options["color_system"] = "truecolor"
        own_init(self, **options)

    console.__init__ = init
