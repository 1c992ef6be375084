"""The IPython shell of a rank: cells feel local, what they show is handed on."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from threading import RLock
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.events import available_events
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from jupyter_dist.engine.shell.cell_events import CellEvents
from jupyter_dist.engine.shell.cell_sources import RankCompiler
from jupyter_dist.engine.shell.shared_grammar import share_compiled_grammar
from jupyter_dist.engine.shell.stored_values import RankStoreMagics, users_folder
from jupyter_dist.engine.shell.tracebacks import (
    begin_in_cell,
    begin_others_in_cell,
    ends_in_our_code,
    has_group,
    is_handled_within,
    up_to_our_code,
    within_program,
    without_command,
)
from jupyter_dist.errors import DistError
from jupyter_dist.model.ranks.user_errors import name_error, type_name
from jupyter_dist.protocol.messages import Output
from jupyter_dist.protocol.plain_values import describe, plain_bundle, plain_id

_OF_ERRORS = ("stack_data", "pygments.formatters.terminal256", "pygments.lexers.python")
"""What IPython imports with the first traceback."""
Show = Callable[[Output], None]


class RankDisplayHook(DisplayHook):
    """Shows the value of a cell's last expression."""

    show: Show
    exec_result: Any = None  # no trait, as with those of the shell

    @property
    def prompt_count(self) -> int:
        """Return the number of the cell, under which `Out` and `_3` keep its value."""
        # IPython counts on before it runs a cell of its history; a rank has the notebook's number.
        return int(self.shell.execution_count)  # type: ignore[union-attr]

    def quiet(self) -> bool:
        """Return whether the cell ended in a semicolon (it is in no history, so ask the shell)."""
        cell = getattr(self.shell, "current_cell", "")
        return bool(self.semicolon_at_end_of_expression(cell))

    def write_output_prompt(self) -> None:
        """Show no prompt: the notebook says which ranks gave the value."""

    def write_format_data(
        self, format_dict: dict[str, Any], md_dict: dict[str, Any] | None = None
    ) -> None:
        """Hand the value on, and keep its text for the result."""
        data, metadata = plain_bundle(format_dict), plain_bundle(md_dict)
        self.shell.shown_value = data.get("text/plain")  # type: ignore[union-attr]
        self.show(Output("value", data=data, metadata=metadata))

    def log_output(self, format_dict: dict[str, Any]) -> None:
        """Write the value to the log of `%logstart -o`; there is no history to keep it in."""
        logger = self.shell.logger  # type: ignore[union-attr]
        if logger.log_output and "text/plain" in format_dict:
            logger.log_write(format_dict["text/plain"], "output")


class RankDisplayTrap:
    """As IPython's, where the hook is a trait, and asked for twice in each cell."""

    def __init__(self, hook: RankDisplayHook) -> None:
        self._hook, self._depth = hook, 0
        self._before: Any = None

    def __enter__(self) -> None:
        if not self._depth and sys.displayhook is not self._hook:
            self._before, sys.displayhook = sys.displayhook, self._hook
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            sys.displayhook = self._before


class RankDisplayPublisher(DisplayPublisher):
    """Shows what `display` is given."""

    show: Show
    areas_entered = 0
    """Output areas of widgets that are written to now: errors are shown there, and are over."""

    def publish(
        self,
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        source: Any = None,  # noqa: ARG002
        *,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **_: Any,
    ) -> None:
        """Hand a MIME bundle on; raises TypeError for what is none, as a notebook does."""
        for name, value in (("data", data), ("metadata", {} if metadata is None else metadata)):
            if not isinstance(value, dict):
                raise TypeError(f"{name} must be a dict, got: {type(value).__name__}")
        given = transient.get("display_id") if isinstance(transient, dict) else None
        self.show(
            Output(
                "update_display" if update else "display",
                data=plain_bundle(data),
                metadata=plain_bundle(metadata),
                display_id=plain_id(given),
            )
        )

    def clear_output(self, wait: bool = False) -> None:
        """Hand the wish on; `wait` makes no difference, the view redraws a few times a second."""
        del wait
        self.show(Output("clear_output"))


class RankShell(InteractiveShell):
    """One rank's shell; made once in the zygote, so that engines share its memory."""

    displayhook_class = Type(RankDisplayHook)
    display_pub_class = Type(RankDisplayPublisher)
    compiler_class = Type(RankCompiler)

    displayhook: RankDisplayHook
    display_pub: RankDisplayPublisher
    compile: RankCompiler
    # Each cell sets or asks for them, and to set a trait takes ten calls. No one observes a rank's.
    execution_count: Any = 1
    last_execution_succeeded: Any = True
    last_execution_result: Any = None
    builtin_trap: Any = None
    display_trap: Any = None
    autoawait: Any = True
    ast_transformers: Any = ()
    input_transformer_manager: Any = None
    input_transformers_post: Any = ()

    current_cell = ""
    is_plain_python = False
    """The notebook's side has found nothing of IPython's own syntax in the current cell."""
    last_traceback: tuple[str, ...] = ()
    shown_value: Any = None
    """The text of the value that the current cell has shown; None: there is none."""
    own_names: Mapping[str, Any] = {}
    """Names that each rank has from us: `rank`, `comm` and their like."""
    _usual_transformers = (0, 0, 0, 0)

    def init_instance_attrs(self) -> None:
        """Have IPython's own transformers of cells, and none of users yet."""
        super().init_instance_attrs()
        self.ast_transformers, self.input_transformers_post = [], []
        self.input_transformer_manager = TransformerManager()

    def init_events(self) -> None:
        """Let interrupts through what is called before and after cells."""
        super().init_events()
        events = CellEvents(self, available_events)
        events.callbacks = self.events.callbacks
        self.events = events

    def init_displayhook(self) -> None:
        """Show values by the rank's own hook, in cells only."""
        super().init_displayhook()
        self.display_trap = RankDisplayTrap(self.displayhook)

    def init_prompts(self) -> None:
        """Set no `sys.ps1`: libraries take it for a prompt where nothing distributed can run."""

    def warm_up(self) -> None:
        """Run a cell, so that what it loads is shared by all engines, and load what errors need.

        A rank could not load that where its memory is out.
        """
        self.run_cell("None", store_history=False)
        for module in _OF_ERRORS:
            import_module(module)
        self._usual_transformers = self._count_transformers()

    def warm_up_errors(self) -> None:
        """Lay out an error that is shown to no one: the first one takes as long as ten others.

        IPython looks through all modules for the file of a frame, and makes tables of colours. That
        takes as long as a tenth of a small start, so it is for hosts with many ranks.
        """
        share_compiled_grammar()
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            layout: Any = self.InteractiveTB
            layout.structured_traceback(type(error), error, error.__traceback__)

    def load_store(self, folder: str) -> None:
        """Offer `%store`, as kernels do, whose values are kept in this folder."""
        self.register_magics(RankStoreMagics(self, folder))
        manager: Any = self.extension_manager
        manager.loaded.add("storemagic")

    def tell_where(self, show: Show, source_dir: str, writes_sources: bool) -> None:
        """Say where outputs go and where cell sources are kept; called once in each engine."""
        self.displayhook.show = show
        self.display_pub.show = show
        self.compile.source_dir = source_dir
        self.compile.writes_sources = writes_sources

    def reset(self, new_session: bool = True, aggressive: bool = False) -> None:
        """Forget the user's names, but not what makes this process a rank."""
        super().reset(new_session, aggressive)
        self.push(dict(self.own_names), interactive=False)

    def transform_cell(self, raw_cell: str) -> str:
        """Translate IPython's syntax, which half of a short cell's time would go to in vain."""
        is_plain = raw_cell is self.current_cell and self.is_plain_python
        # Else an extension on this rank has given cells a syntax of its own.
        if is_plain and self._count_transformers() == self._usual_transformers:
            return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        return str(super().transform_cell(raw_cell))

    def _tee(self, channel: str) -> AbstractContextManager[object]:  # type: ignore[override]
        """Keep no copy of what is printed: IPython's is for a history, which a rank has not."""
        del channel
        return RLock()  # a context written in C, where nullcontext would take four calls

    def should_run_async(self, raw_cell: str, **options: Any) -> bool:
        """Return whether a cell awaits at its top level, without compiling those that cannot."""
        if "await" not in raw_cell and "async" not in raw_cell:
            return False
        return bool(super().should_run_async(raw_cell, **options))

    def _count_transformers(self) -> tuple[int, int, int, int]:
        manager = self.input_transformer_manager
        return (
            len(manager.cleanup_transforms),
            len(manager.line_transforms),
            len(manager.token_transformers),
            len(self.input_transformers_post),
        )

    def name_cell(self, file_name: str) -> str:
        """Name the cell whose code has this file name, as `In[3]`; empty for other code."""
        prefix = f"{self.compile.source_dir}/In_"
        if not file_name.startswith(prefix):
            return ""
        return f"In[{file_name.removeprefix(prefix).partition('_')[0]}]"

    def call_in_cell(self, title: str, call: Callable[[], object]) -> Any:
        """Call from a frame that stands for the running cell, whose only line is the title.

        So records, stacks and verdicts have a place to name, as `In[3]:1`.
        """
        names: dict[str, Any] = {"call": call}
        file = self.compile.cache(title, self.execution_count)
        exec(compile("result = call()", file, "exec"), names)  # noqa: S102  (these very words)
        return names["result"]

    def showtraceback(self, exc_tuple: Any = None, *arguments: Any, **options: Any) -> None:
        """Show an error as the cell's own: what happened inside our communicators is left out."""
        kind, error, trace = self._get_exc_info(exc_tuple)
        try:
            self._show_error(kind, error, trace, *arguments, **options)
        except BaseException as problem:  # noqa: BLE001  (hooks and __str__ of users raise anything)
            self.last_traceback = (
                f"{name_error(error)} (its traceback could not be made: {type_name(problem)})",
            )

    def _show_error(
        self, kind: Any, error: Any, trace: Any, *arguments: Any, **options: Any
    ) -> None:
        trace = within_program(without_command(trace))
        if isinstance(error, DistError | ValueError | TypeError | RuntimeError | KeyboardInterrupt):
            trace = up_to_our_code(trace)
            error.__suppress_context__ |= isinstance(error, DistError)
        elif isinstance(error, AttributeError | EOFError) and ends_in_our_code(trace):
            trace = up_to_our_code(trace)
        if isinstance(error, KeyboardInterrupt) and is_handled_within(error.__context__):
            # A connection that was closed to let the rank go; its frames take a second to lay out.
            error.__suppress_context__ = True
        begin_others_in_cell(error, self.name_cell)
        if has_group(error):
            # IPython would print it, and leave the result without a traceback.
            trace = begin_in_cell(trace, self.name_cell)
            lines = traceback.format_exception(kind, error, trace)
            self.last_traceback = ("".join(lines).rstrip("\n"),)
            return
        super().showtraceback((kind, error, trace), *arguments, **options)

    def _showtraceback(self, etype: Any, evalue: Any, stb: list[str]) -> None:
        """Keep the traceback for the result instead of printing it."""
        del etype, evalue
        # An error of a user's may draw itself, as anything.
        lines = tuple(s if isinstance(s, str) else describe(s) for s in stb)
        if self.display_pub.areas_entered:
            self.display_pub.show(Output("stderr", "\n".join((*lines, ""))))
            return
        self.last_traceback = lines

    def show_usage_error(self, exc: BaseException) -> None:
        """Keep a magic's usage error for the result instead of printing it."""
        self.last_traceback = (f"UsageError: {exc}",)

    def ask_exit(self) -> None:
        """Answer `exit` and `quit`: a rank ends with its cluster."""
        raise SystemExit("exit()")

    def enable_gui(self, gui: str | None = None) -> None:
        """Accept `%matplotlib`: there is no event loop to hook into."""


def make_shell(ipython_dir: str) -> RankShell:
    """Make the shell without history, and without threads, sockets or files of its own."""
    # IPython's advice to type `exit` does not hold on a rank.
    warnings.filterwarnings("ignore", message="To exit: use")
    kept_in = users_folder()
    os.environ["IPYTHONDIR"] = ipython_dir
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.banner1 = ""
    # jedi costs tens of MiB per engine, and completion is asked for rarely.
    config.Completer.use_jedi = False
    shell: RankShell = RankShell.instance(config=config, ipython_dir=ipython_dir)
    shell.load_store(kept_in)
    return shell
