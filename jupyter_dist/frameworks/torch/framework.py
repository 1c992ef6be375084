"""torch.distributed on this rank: a bare init_process_group() works, and a death is survived."""

import importlib
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from jupyter_dist.errors import FrameworkError, PeerFailed
from jupyter_dist.frameworks.framework import Framework
from jupyter_dist.frameworks.gloo_sends import TORCH_LIBRARY, end_lost_sends, ending_lost_sends
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.frameworks.torch.breaking import Breaking, is_of_transport
from jupyter_dist.frameworks.torch.forming import Forming, describe
from jupyter_dist.frameworks.torch.groups import DestroyedGroups, Groups
from jupyter_dist.frameworks.torch.private_c10d import MODULE, C10d
from jupyter_dist.frameworks.torch.request import Place, Settings, arguments_of, settings_of
from jupyter_dist.frameworks.torch.rpc import MODULE as RPC
from jupyter_dist.frameworks.torch.rpc import Rpc
from jupyter_dist.frameworks.torch.stale_refs import name_belongings
from jupyter_dist.model.ranks.initialized import Formed

if TYPE_CHECKING:
    from jupyter_dist.frameworks.torch.held_timeouts import HeldTimeouts

_Init = Callable[..., None]
_ENTRIES = 2000
"""Collectives that torch's own flight recorder remembers; some 500 bytes each."""
_LIBRARIES = ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning")
_NEW_NAMES_SINCE = (2, 9)
"""Later versions warn of the old names."""


class Torch(Framework):
    """torch.distributed as a framework. Who begins an asynchronous collective waits for it."""

    name: ClassVar[str] = "torch"

    def __init__(self, context: RankContext, hooks: ImportHooks) -> None:
        super().__init__(context, hooks)
        self._c10d: C10d | None = None
        self._init: _Init | None = None
        """torch's own init_process_group."""
        self._groups = Groups(lambda: self._c10d.groups() if self._c10d is not None else [])
        self._breaking = Breaking(
            self._tear, lambda: bool(self._c10d and self._c10d.uses_devices())
        )
        self._forming = Forming(context, self._breaking.look_around)
        self._timeouts: HeldTimeouts | None = None
        """Those of torch, once it is loaded."""
        self._rpc = Rpc(context, self._forming.set_place)
        self._has_libraries = False
        """What they look for has been prepared."""
        self._formed: Formed | None = None
        self._departed = DestroyedGroups()
        self._is_broken = False
        self._is_unclaimed = False
        """Formed between two cells: the next call that agrees with it is content."""

    def install(self) -> None:
        """Be ready for its import."""
        if "torch" in sys.modules:
            self._switch_on_recorder()
        else:
            self._hooks.before("torch", self._switch_on_recorder)
        self._hooks.after(MODULE, self._take_over)
        self._hooks.after(RPC, self._rpc.take_over)
        self._hooks.after("torch.distributed", self._replace_debugger)
        for name in _LIBRARIES:
            self._hooks.before(name, self._prepare_libraries)

    def _replace_debugger(self, module: ModuleType) -> None:
        from jupyter_dist.frameworks.torch.libraries import ask_with_breakpoint

        ask_with_breakpoint(module)

    def _prepare_libraries(self) -> None:
        """Be ready for a library on top of torch, of which most ranks never hear."""
        if not self._has_libraries:
            from jupyter_dist.frameworks.torch.libraries import Libraries

            Libraries(self._context, self._forming.set_place).install(self._hooks)
            self._has_libraries = True

    def _switch_on_recorder(self) -> None:
        """Set what torch looks at when it is loaded; what the user has set stays."""
        for name, value in recorder_variables(_installed_version(), self._context.run_dir).items():
            os.environ.setdefault(name, value)

    def _take_over(self, module: ModuleType) -> None:
        """Put ourselves in front of what forms and destroys groups."""
        from jupyter_dist.frameworks.torch.held_timeouts import HeldTimeouts

        self._c10d = C10d(module)
        self._init = self._c10d.replace("init_process_group", self._init_group)
        for name in ("destroy_process_group", "_abort_process_group"):
            self._c10d.replace(name, self._destroy_group)
        self._timeouts = HeldTimeouts(self._c10d.backends, lambda: self._forming.store)
        self._c10d.watch_makers(self._groups.making)
        self._c10d.set_aside_messages()

    # --- what the user calls -----------------------------------------------------------------

    def _init_group(self, original: _Init, /, *args: Any, **kwargs: Any) -> None:
        try:
            arguments = inspect.signature(original).bind(*args, **kwargs).arguments
        except TypeError:
            original(*args, **kwargs)
            raise  # not reached: torch binds them like this, too
        if self._must_be_left_alone(arguments):
            original(*args, **kwargs)
        else:
            # What was formed again without being called is claimed by a call that agrees with it.
            is_claimed, self._is_unclaimed = self._agrees(arguments), False
            if not is_claimed:
                self._form(arguments)

    def _must_be_left_alone(self, arguments: dict[str, Any]) -> bool:
        """Return whether torch itself says what is wrong, or nobody else is concerned."""
        both = arguments.get("store") is not None and arguments.get("init_method") is not None
        is_fake = str(arguments.get("backend")).lower() == "fake"
        stands = self._c10d is not None and self._c10d.default_group is not None
        return both or is_fake or (stands and not self._agrees(arguments))

    def _agrees(self, arguments: dict[str, Any]) -> bool:
        if not self._is_unclaimed or self._formed is None:
            return False
        stands = _read(self._formed.settings)
        wanted = settings_of(arguments, _read("").place).backend
        return wanted is None or wanted == stands.backend

    def _destroy_group(self, original: Callable[..., None], /, *args: Any, **kwargs: Any) -> None:
        if self._c10d is not None:
            self._departed.hold(self._c10d.groups())
        try:
            original(*args, **kwargs)
        finally:
            self._note_destroyed()

    def _note_destroyed(self) -> None:
        self._groups.forget_destroyed()
        if self._c10d is not None:
            self._c10d.forget_destroyed()
        if self._c10d is not None and self._c10d.default_group is None:
            self._formed, self._is_broken, self._is_unclaimed = None, False, False
            self._forming.let_go()

    def _own_init(self) -> tuple[C10d, _Init]:
        if self._c10d is None or self._init is None:
            raise FrameworkError("this torch has no torch.distributed.init_process_group.")
        return self._c10d, self._init

    def _form(self, arguments: dict[str, Any], kept: Place | None = None) -> None:
        c10d, original = self._own_init()
        self._is_broken = False
        place = self._forming.form(c10d, original, arguments, kept)
        settings = msgspec.json.encode(settings_of(arguments, place)).decode()
        self._formed = self._as_formed(settings)

    # --- generations -------------------------------------------------------------------------

    def formed(self) -> Formed | None:
        """Return whether the default group stands."""
        if self._formed is None or self._c10d is None:
            return None
        return msgspec.structs.replace(
            self._formed, calls=self._c10d.count_calls(), is_broken=self._is_broken
        )

    def form(self, settings: str, reason: str) -> tuple[str, ...]:
        """Form the default group again, with all ranks."""
        notes = self._say_what_is_old(reason) if self._formed is not None else ()
        try:
            self._give_up()
            importlib.import_module(MODULE)
            self._own_init()
            arguments, place = arguments_of(_read(settings)), _read(settings).place
        except Exception as error:  # else the others would wait for this rank
            obstacle = describe(error)
            if isinstance(error, ImportError):
                obstacle = f"torch cannot be imported there: {error}"
            self._forming.refuse(obstacle)
            raise
        try:
            self._form(arguments, place)
        except Exception as error:
            meant = self._breaking.explain(error)
            if isinstance(meant or error, PeerFailed):
                # A rank was lost: it is to be formed with the next generation.
                self._formed, self._is_broken = self._as_formed(settings), True
            if meant is None:
                raise
            raise meant from error
        self._is_unclaimed = True
        return notes

    def _say_what_is_old(self, reason: str) -> tuple[str, ...]:
        why = f" ({reason})" if reason else ""
        old = name_belongings(self._context.user_namespace())
        belongs = f" These variables belong to the old one: {old}." if old else ""
        return (f"torch's default group was formed again{why}.{belongs}",)

    def _give_up(self) -> None:
        """Destroy all groups; what still waits in them is torn before, so that nothing hangs."""
        if self._c10d is None or self._c10d.default_group is None:
            return
        self._groups.shut_down()
        try:
            with ending_lost_sends(TORCH_LIBRARY):  # its threads may be in one
                self._c10d.drop_groups()
        except RuntimeError as error:
            raise FrameworkError(f"torch cannot give its groups up: {error}") from error

    # --- cells -------------------------------------------------------------------------------

    def prepare_cell(self, code: str) -> None:
        """Notice variables that cells before have set."""
        del code
        self._forming.enter_cell()
        if self._c10d is not None:
            self._departed.let_go()
        if self._timeouts is not None:
            self._timeouts.follow(self._context.held.is_held)

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Note that a rank of this cell has failed."""
        if self._c10d is not None:
            self._breaking.break_off(failed_rank, reason)

    def look(self) -> None:
        """Tear what waits for a rank that has failed; leave time to what waits for a debugger."""
        self._departed.let_go()
        self._breaking.look()
        if self._timeouts is not None:
            self._timeouts.follow(self._context.held.is_held)

    def _tear(self, is_again: bool) -> None:
        if is_again:
            # In a thread, for a large library has to be looked through.
            ending = partial(end_lost_sends, TORCH_LIBRARY)
            threading.Thread(target=ending, name="gloo-sends", daemon=True).start()
            return
        self._is_broken = True
        self._forming.hang_up()
        self._groups.shut_down()
        if self._c10d is not None:
            self._c10d.abort_devices()

    def explain(self, error: BaseException) -> BaseException | None:
        """Return what an error of torch's really means."""
        if self._c10d is None:
            return None
        if is_of_transport(error):
            self._is_broken = True
        return self._breaking.explain(error)

    def expect_cell(self) -> None:
        """Forget the failure of an earlier cell."""
        if self._c10d is not None:
            self._breaking.expect_cell()

    def leave(self) -> None:
        """Let go of whoever waits for this rank; the process ends."""
        self._groups.shut_down()
        self._forming.let_go()


def _read(settings: str) -> Settings:
    return msgspec.json.decode(settings, type=Settings) if settings else Settings()


def recorder_variables(version: tuple[int, ...], run_dir: str) -> dict[str, str]:
    """Return the variables of torch's flight recorder. torch puts the rank behind the prefix."""
    prefix = f"{run_dir}/torch_rank_"
    found = {
        "TORCH_FR_BUFFER_SIZE": str(_ENTRIES),
        "TORCH_FR_DUMP_TEMP_FILE": prefix,
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        # torch's default ends the whole process when a peer is gone; this only ends its NCCL.
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "2",
    }
    if version < _NEW_NAMES_SINCE:
        found["TORCH_NCCL_TRACE_BUFFER_SIZE"] = str(_ENTRIES)
        found["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] = prefix
    return found


def _installed_version() -> tuple[int, ...]:
    """Return the version of torch without loading it; (0,) where there is none."""
    import importlib.metadata

    try:
        text = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return (0,)
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
