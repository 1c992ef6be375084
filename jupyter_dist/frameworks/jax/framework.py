"""JAX on one rank: formed with the others on its own, and given up without loss."""

import ast
import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from jupyter_dist.errors import CommunicatorError
from jupyter_dist.frameworks.framework import Framework
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.jax.forming.initialize import SERVICE, Initializer
from jupyter_dist.frameworks.jax.launches.launches import Launches
from jupyter_dist.frameworks.jax.launches.stale_refs import describe_stale
from jupyter_dist.frameworks.jax.private import runtime as private_runtime
from jupyter_dist.frameworks.jax.service import relay_process
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.model.ranks.initialized import Formed

_FIRST_USE = "the first use of JAX's devices"
_FIRST_USE_TIMEOUT_S = 7 * 24 * 3600.0
"""Who comes late computes something else; a rank that has failed is told at once."""
_SETS_VARIABLES = re.compile(r"environ|putenv|%env")
_IMPORTS_JAX = re.compile(r"^\s*(import|from)\s+jax\b", re.MULTILINE)


class Jax(Framework):
    """JAX as a framework."""

    name: ClassVar[str] = "jax"

    def __init__(self, context: RankContext, hooks: ImportHooks) -> None:
        super().__init__(context, hooks)
        self.mode = "auto"
        """When it is formed without being asked: at the start, before a cell (auto), never."""
        self._launches = Launches(context, lambda: self._initializer.why_service_is_gone)
        self._initializer = Initializer(context, self._launches)
        self._is_memory_told = False
        self._is_due = False
        """It is to be formed in this cell, before it is used or at the end."""

    def install(self) -> None:
        """Be ready for its import, without importing it."""
        self._hooks.before("jax", self._want_service)
        self._hooks.after(private_runtime.CLUSTERS, self._initializer.on_clusters)
        self._hooks.after(private_runtime.DISTRIBUTED, self._initializer.on_distributed)
        self._hooks.after(
            private_runtime.BACKENDS,
            lambda bridge: private_runtime.call_before_backends(bridge, self._before_backends),
        )
        self._hooks.after(private_runtime.BACKENDS, private_runtime.disown_abandoned)
        self._launches.install(self._hooks)

    def _want_service(self) -> None:
        """Have the service, and the way to it, started while JAX is imported."""
        if self.mode != "never" and self._is_everybody_here():
            self._context.want_service(SERVICE)
            relay_process.prepare()

    def _is_everybody_here(self) -> bool:
        return len(self._context.cell_ranks) == self._context.info.world_size

    # --- generations ---

    def formed(self) -> Formed | None:
        """Return what stands at the end of a generation."""
        standing, owed = self._initializer.standing, self._initializer.owed
        if standing is None:
            if owed is None:
                return None
            settings = msgspec.json.encode(owed.settings).decode()
            size = self._context.info.world_size
            return Formed(self.name, 0, size, is_broken=True, settings=settings)
        return Formed(
            self.name,
            standing.generation,
            standing.world_size,
            self._launches.count,
            self._launches.is_broken,
            msgspec.json.encode(standing.settings).decode(),
        )

    def form(self, settings: str, reason: str) -> tuple[str, ...]:
        """Form it again with all ranks of the present generation, between two cells."""
        del reason
        self._initializer.form_again(settings)
        return self._describe_stale()

    # --- cells ---

    def prepare_cell(self, code: str) -> None:
        """Form it before a cell that imports it, and does not form it with words of its own."""
        self._is_due = False
        if self.mode == "never" or "jax" not in code or self._initializer.standing is not None:
            return
        if self._initializer.was_shut_down or not self._is_everybody_here():
            return
        if imports_jax(code):
            self._is_due = True
            # JAX reads some variables when it is imported: then the cell is to set them first.
            if "jax" in sys.modules or not _SETS_VARIABLES.search(code):
                self._form_if_due()

    def _form_if_due(self) -> None:
        # A cell that has raised may have left it due; a task that comes next is not for all.
        if self._is_due and self._is_everybody_here() and self._initializer.standing is None:
            self._is_due = False
            self._initializer.form_in_cell()

    def settle(self) -> None:
        """Wait until all is done that the cell has begun, and find the devices of all ranks.

        They can be found together only: later, a rank that uses JAX alone would wait for others.
        """
        self._launches.settle()
        try:
            self._form_if_due()
        except CommunicatorError:
            return  # the cell of this rank was good, that of another was not
        if self._initializer.standing is not None and self._is_everybody_here():
            self._find_devices()
        self._tell_of_memory()

    def _find_devices(self) -> None:
        if not private_runtime.is_backend_made():
            try:
                private_runtime.make_backends()
            except CommunicatorError:
                return  # as above; they are found in a later cell, or JAX is formed again
            except RuntimeError as error:
                self._context.tell(f"JAX found no devices: {error}")
                return
        if self._initializer.has_cleared:
            for note in self._describe_stale():
                self._context.tell(note)

    def _before_backends(self) -> None:
        """Let all ranks begin to look for devices together: JAX waits where nobody can end it."""
        self._form_if_due()
        if self._context.cell_ranks:
            self._initializer.refuse_alone()
        private_runtime.provide_threads()
        if self._initializer.standing is not None and self._context.cell_ranks:
            self._context.agree(_FIRST_USE, b"", _FIRST_USE_TIMEOUT_S)

    def _describe_stale(self) -> tuple[str, ...]:
        self._initializer.has_cleared = False
        devices = set(private_runtime.list_devices())
        return describe_stale(self._context.user_namespace(), devices)

    def _tell_of_memory(self) -> None:
        """Explain once that JAX takes most of a GPU that torch wants as well."""
        if self._is_memory_told or not self._context.info.device:
            return
        if shares_gpu(sys.modules, os.environ):
            self._is_memory_told = True
            self._context.tell(
                "JAX and torch use the same GPU, and JAX takes 75 % of its memory at once. Start "
                "with --env XLA_PYTHON_CLIENT_PREALLOCATE=false, or with "
                "--env XLA_PYTHON_CLIENT_MEM_FRACTION=.4, to leave some to torch."
            )

    def explain(self, error: BaseException) -> BaseException | None:
        """Return what a cell's error really means."""
        return self._launches.explain(error)

    # --- from the link thread ---

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Note that a rank of this cell has failed."""
        self._launches.break_off(failed_rank, reason)

    def look(self) -> None:
        """Look after collectives under way."""
        self._launches.look()

    def expect_cell(self) -> None:
        """Forget what `break_off` has said."""
        self._launches.expect_cell()

    def leave(self) -> None:
        """Let go of it; JAX's own way out would wait for the others."""
        self._initializer.give_up()


def imports_jax(code: str) -> bool:
    """Return whether a cell imports JAX and leaves it to us to form it."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # magics of IPython
        return bool(_IMPORTS_JAX.search(code)) and not re.search(r"\binitialize\b", code)
    words = {name for part in ast.walk(tree) for name in _name(part)}
    return "import jax" in words and "initialize" not in words


def _name(part: ast.AST) -> Iterator[str]:
    """Yield what a part of a program says that matters here."""
    match part:
        case ast.Import(names=names):
            yield from (f"import {alias.name.partition('.')[0]}" for alias in names)
        case ast.ImportFrom(module=str(module), level=0, names=names):
            yield f"import {module.partition('.')[0]}"
            yield from (alias.name for alias in names)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            yield name
        case _:
            return


def shares_gpu(modules: Mapping[str, object], environ: Mapping[str, str]) -> bool:
    """Return whether JAX will take the memory of a GPU that torch has loaded itself for, too."""
    if not {"jax", "torch"} <= set(modules) or "XLA_PYTHON_CLIENT_MEM_FRACTION" in environ:
        return False
    if environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true").lower() in {"false", "0"}:
        return False
    return any(name.startswith("jax_plugins.xla_cuda") for name in modules)
