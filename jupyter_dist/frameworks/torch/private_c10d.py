"""What is private in torch.distributed and needed here: each thing behind one probe."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from jupyter_dist.frameworks.replacing import replace

MODULE = "torch.distributed.distributed_c10d"
_MAKERS = ("_new_process_group_helper", "split_group")
"""Every backend comes into being in one of these."""
_TAKEN_OVER = ("torch.distributed", "torch.distributed.device_mesh")
"""Where names of that module may have been copied to already."""

_MESSAGES = ("send", "recv", "isend", "irecv")
"""Between two ranks; the third argument of each is the group."""
_UNLIKE = "monitored_barrier"
"""Its first argument is the group, and rank 0 counts more calls than others."""


class C10d:
    """The module torch.distributed.distributed_c10d, once it is loaded."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._aside: dict[Any, int] = {}
        """By group: what torch has counted on this rank and not on all others alike."""

    def replace(self, name: str, ours: Callable[..., Any]) -> Any:
        """Have `ours(theirs, …)` called in the place of a function, and return theirs, or None."""
        theirs = getattr(self._module, name, None)
        if replace(self._module, name, ours):
            for place in _TAKEN_OVER:
                module = sys.modules.get(place)
                if getattr(module, name, None) is theirs:
                    setattr(module, name, getattr(self._module, name))
        return theirs

    def watch_makers(self, making: Callable[[], AbstractContextManager[list[Any]]]) -> None:
        """Have groups made inside of `making()`, whose list takes each of them."""

        def make(theirs: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            with making() as made:
                result = theirs(*args, **kwargs)
                made.append(result[0] if isinstance(result, tuple) else result)
            return result

        for name in _MAKERS:
            self.replace(name, make)

    def set_aside_messages(self) -> None:
        """Leave calls out of `count_calls` that torch does not count alike on all ranks."""
        for name in _MESSAGES:
            self.replace(name, partial(self._call_uncounted, 2))
        self.replace(_UNLIKE, self._call_as_gloo)
        self.replace(_UNLIKE, partial(self._call_uncounted, 0))

    def _find_group(self, position: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        group = args[position] if len(args) > position else kwargs.get("group")
        return self.default_group if group is None else group

    def _call_as_gloo(self, theirs: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call what torch offers to gloo only: a group of several backends has it for its CPU."""
        group = self._find_group(0, args, kwargs)
        known = getattr(getattr(self._module, "_world", None), "pg_map", None)
        if known is None or group not in known or "gloo" not in _name_backend(group, "cpu"):
            return theirs(*args, **kwargs)
        named = known[group]
        known[group] = ("gloo", *named[1:])
        try:
            return theirs(*args, **kwargs)
        finally:
            if group in known:
                known[group] = named

    def _call_uncounted(
        self, position: int, theirs: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        group = self._find_group(position, args, kwargs)
        before, aside = _sequence(group), self._aside.get(group, 0)
        try:
            return theirs(*args, **kwargs)
        finally:
            counted = _sequence(group) - before
            if counted:
                # `send` calls `isend`, which is in it already.
                self._aside[group] = aside + counted

    # --- what stands -------------------------------------------------------------------------

    @property
    def default_group(self) -> Any:
        """The default group, or None."""
        return self._module.GroupMember.WORLD

    def groups(self) -> list[Any]:
        """Return every group of this rank, the default one among them."""
        world = getattr(self._module, "_world", None)
        known = getattr(world, "pg_map", None)
        default = self.default_group
        return list(known) if known else [default] if default is not None else []

    def backends(self) -> Iterator[tuple[str, Any]]:
        """Yield what groups use whose time-out can be changed, as `0 cpu` of the default group."""
        for group in self.groups():
            for device in getattr(group, "_device_types", ()):
                try:
                    backend = group._get_backend(device)  # noqa: SLF001  (torch: no other way)
                    name = f"{group.group_name} {device.type}"
                    options = getattr(backend, "options", None)
                except RuntimeError:  # it has none for this device, or without options, or ends
                    continue
                if hasattr(options, "_timeout") and hasattr(backend, "_set_default_timeout"):
                    yield name, backend

    def count_calls(self) -> int:
        """Count collectives that were begun in groups of all ranks; 0 where torch does not tell."""
        default = self.default_group
        if default is None:
            return 0
        everyone = default.size()
        shared = [group for group in self.groups() if group.size() == everyone]
        return sum(_sequence(group) - self._aside.get(group, 0) for group in shared)

    def forget_destroyed(self) -> None:
        """Let go of groups that do not stand any more."""
        standing = self.groups()
        self._aside = {group: count for group, count in self._aside.items() if group in standing}

    def number_anew(self) -> None:
        """Have groups counted from 0: their numbers are in the keys by which ranks find each other.

        torch does so when it destroys the default group, but not when forming it has failed.
        """
        world: Any = getattr(self._module, "_world", None)
        if self.default_group is None and hasattr(world, "group_count"):
            world.group_count = 0

    # --- what may be asked for ---------------------------------------------------------------

    def resolve_backends(self, backend: str | None, device_id: Any) -> str:
        """Return the backends of each device, as `cpu:gloo,cuda:nccl`; raises ValueError."""
        module = self._module
        if backend is None and device_id is not None:
            device = getattr(device_id, "type", "cuda")
            backend = module.Backend.default_device_backend_map.get(device)
        name = module.Backend("undefined" if backend is None else backend)
        if ":" not in name and name not in module.Backend.backend_list:
            return str(name)  # torch would warn, and guess
        return repr(module.BackendConfig(name))

    def explain_unusable(self, backends: str) -> str:
        """Return why one of these backends cannot be used on this rank; empty: all can."""
        for pair in backends.split(","):
            device, _, backend = pair.partition(":")
            if problem := self._explain_unusable(backend or device):
                return problem
        return ""

    def _explain_unusable(self, backend: str) -> str:
        import torch

        known = [name for name in self._module.Backend.backend_list if name != "undefined"]
        if backend not in known:
            return f"there is no backend {backend!r}. Accepted: {', '.join(known)}"
        is_there = getattr(self._module, f"is_{backend}_available", lambda: True)
        if not is_there():
            return f"this torch was built without {backend}. Accepted here: backend='gloo'"
        if backend == "nccl" and not torch.cuda.device_count():
            return (
                "backend 'nccl' needs a GPU, and this rank sees none "
                f"(CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '')!r}). "
                "Accepted here: backend='gloo'"
            )
        return ""

    # --- the end -----------------------------------------------------------------------------

    def uses_devices(self) -> bool:
        """Return whether some group runs on devices."""
        return any(map(_is_on_device, self.groups()))

    def abort_devices(self) -> None:
        """Abort what runs on devices, without waiting; groups without devices are left alone."""
        groups = [group for group in self.groups() if _is_on_device(group)]
        if groups:  # NCCL may block for long in there
            threading.Thread(target=_abort, args=(groups,), name="torch-abort", daemon=True).start()

    def drop_groups(self) -> None:
        """Destroy all groups; those on devices are aborted, because destroying waits for them."""
        abort = getattr(self._module, "_abort_process_group", None)
        if abort is not None and any(map(_is_on_device, self.groups())):
            abort()
        else:
            self._module.destroy_process_group()


def _abort(groups: Sequence[Any]) -> None:
    for group in groups:
        abort = getattr(group, "abort", None)
        if abort is not None:
            with contextlib.suppress(RuntimeError):  # it is being aborted already
                abort()


def _sequence(group: Any) -> int:
    tell = getattr(group, "_get_sequence_number_for_group", None)
    if tell is None:
        return 0
    try:
        return int(tell())
    except RuntimeError:  # a backend that does not count
        return 0


def _is_on_device(group: Any) -> bool:
    devices = getattr(group, "_device_types", ())
    is_elsewhere = any(getattr(device, "type", "") != "cpu" for device in devices)
    return is_elsewhere and "nccl" in _name_backend(group, "cuda")


def _name_backend(group: Any, device: str) -> str:
    """Return what a group has for a device, as `gloo`; empty: nothing."""
    import torch

    try:
        backend = group._get_backend(torch.device(device))  # noqa: SLF001  (torch: no other way)
    except RuntimeError:
        return ""
    return str(getattr(backend, "name", lambda: "")()).lower()
