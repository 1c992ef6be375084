"""Collectives in device memory: checked as those in host memory are, then queued."""

from typing import Any

from jupyter_dist.collective.calls import arguments
from jupyter_dist.collective.nccl import launch
from jupyter_dist.collective.nccl.codes import find_reduction
from jupyter_dist.collective.nccl.launch import Plan
from jupyter_dist.collective.nccl.libraries import Room
from jupyter_dist.collective.nccl.messages import DeviceMessages

_MOST_PLANS = 4096
_Key = tuple[Any, ...]


class DeviceCalls(DeviceMessages):
    """Exchanges arrays in device memory; see HostCommunicator for what each method does."""

    def all_reduce(self, array: Any, op: str = "sum", out: Any = None) -> Any:
        """Reduce over all ranks.

        Called in the innermost loops, so what has been checked before is recognized at once.
        """
        kind = self.plain
        if type(array) is not kind or type(out) is not kind or type(op) is not str:
            return self._all_reduce(array, op, out)
        plan = self._plans.get(("all_reduce", array.dtype, array.shape, op))
        if plan is None or array.strides != plan.strides or not self.cuda.is_only:
            return self._all_reduce(array, op, out)
        if out is not array:
            # Contiguous arrays of the same strides and size have the same shape.
            if out.strides != plan.strides or out.size != plan.size or out.dtype != plan.dtype:
                return self._all_reduce(array, op, out)
            array = self._apart(array, out)
        self._run(plan, array, out)
        return out

    def _all_reduce(self, array: Any, op: str, out: Any) -> Any:
        source = self.take("all_reduce", array)
        key = ("all_reduce", source.dtype, source.shape, op)
        plan = self._find_plan(key) or self._plan_reduction(key, source, op, source.shape)
        output = self._find_room(plan, out)
        self._run(plan, self._apart(source, output[0]), output[0])
        return self._give(output, out)

    def broadcast(self, array: Any, root: int = 0, out: Any = None) -> Any:
        """Return the root's array to everybody; elsewhere `array` tells shape and dtype."""
        root = arguments.peer("broadcast", "root", root, self.size)
        source = self.take("broadcast", array)
        key = ("broadcast", source.dtype, source.shape, root)
        plan = self._plans.get(key) or self._plan_movement(key, source, root, source.shape)
        return self._run_into(plan, source if self.rank == root else None, out)

    def reduce(self, array: Any, root: int = 0, op: str = "sum", out: Any = None) -> Any:
        """Reduce over all ranks into the root; the others get None and need no `out`."""
        root = arguments.peer("reduce", "root", root, self.size)
        source = self.take("reduce", array)
        key = ("reduce", source.dtype, source.shape, op, root)
        plan = self._find_plan(key) or self._plan_reduction(key, source, op, source.shape, root)
        if self.rank != root:
            self._run(plan, source, None)
            return None
        return self._run_into(plan, source, out)

    def all_gather(self, array: Any, out: Any = None, *, tiled: bool = False) -> Any:
        """Collect every rank's array: shape (size, *array.shape), tiled along the first axis."""
        source = self.take("all_gather", array)
        key = ("all_gather", source.dtype, source.shape, tiled)
        shape = arguments.gathered_shape(source.shape, self.size, tiled=tiled)
        plan = self._plans.get(key) or self._plan_movement(key, source, -1, shape)
        return self._run_into(plan, source, out, -self.rank * plan.count)

    def reduce_scatter(self, array: Any, op: str = "sum", out: Any = None) -> Any:
        """Reduce `array` of shape (size, …) over all ranks; rank i gets row i."""
        source = self.take("reduce_scatter", array)
        arguments.check_rows("reduce_scatter", source.shape, self.size)
        key = ("reduce_scatter", source.dtype, source.shape, op)
        shape = source.shape[1:]
        plan = self._find_plan(key) or self._plan_reduction(key, source, op, shape)
        own_row = self.rank * (source.nbytes // self.size)
        return self._run_into(plan, source, out, own_row)

    def all_to_all(self, array: Any, out: Any = None) -> Any:
        """Send row i of `array` of shape (size, …) to rank i; row i of the result is from it."""
        source = self.take("all_to_all", array)
        arguments.check_rows("all_to_all", source.shape, self.size)
        key = ("all_to_all", source.dtype, source.shape)
        plan = self._plans.get(key) or self._plan_movement(key, source, -1, source.shape, True)
        return self._run_into(plan, source, out, None)

    def gather(self, array: Any, root: int = 0, out: Any = None) -> Any:
        """Collect every rank's array in the root: shape (size, *array.shape) there, else None."""
        root = arguments.peer("gather", "root", root, self.size)
        source = self.take("gather", array)
        key = ("gather", source.dtype, source.shape, root)
        shape = (self.size, *source.shape)
        plan = self._plans.get(key) or self._plan_movement(key, source, root, shape)
        if self.rank != root:
            self._run(plan, source, None)
            return None
        return self._run_into(plan, source, out, -self.rank * plan.count)

    def scatter(self, array: Any, root: int = 0, out: Any = None) -> Any:
        """Return row i of the root's array of shape (size, …) to rank i.

        Elsewhere `array` (or `out`) tells shape and dtype of the row.
        """
        root = arguments.peer("scatter", "root", root, self.size)
        source = self.take("scatter", out if array is None else array)
        shape = source.shape
        if self.rank == root:
            arguments.check_rows("scatter", shape, self.size)
            shape = shape[1:]
        # The row, because all ranks must mean the same.
        row = source[0] if self.rank == root else source
        key = ("scatter", source.dtype, shape, root)
        plan = self._plans.get(key) or self._plan_movement(key, row, root, shape)
        given = source if self.rank == root else None
        return self._run_into(plan, given, out, root * plan.count)

    # --- what calls of one signature have in common ------------------------------------------

    def _find_plan(self, key: _Key) -> Plan | None:
        try:
            return self._plans.get(key)
        except TypeError:  # an op that is no op at all, such as a list
            return None

    def _plan_reduction(
        self, key: _Key, source: Any, op: str, shape: tuple[int, ...], root: int = -1
    ) -> Plan:
        operation = key[0]
        arguments.check_dtype(operation, source, source.dtype)
        arguments.check_reduction(operation, op, source.dtype)
        how = find_reduction(operation, source.dtype, op)
        launched: launch.Launched = getattr(launch, operation)
        if how.widened:
            launched = launch.widened(launched)
        count = source.size // self.size if operation == "reduce_scatter" else source.size
        signature = self.log.sign(operation, source, op, root)
        plan = Plan(
            signature,
            launched,
            shape,
            source.dtype,
            count * how.factor,
            how.datatype,
            how.op,
            root,
            how.widened,
            _contiguous_strides(shape, source.dtype.itemsize),
            source.size,
        )
        return self._keep_plan(key, plan)

    def _plan_movement(
        self,
        key: _Key,
        source: Any,
        root: int,
        shape: tuple[int, ...],
        is_split: bool = False,
    ) -> Plan:
        operation = key[0]
        arguments.check_dtype(operation, source, source.dtype)
        signature = self.log.sign(operation, source, root=root)
        nbytes = source.nbytes // self.size if is_split else source.nbytes
        launched: launch.Launched = getattr(launch, operation)
        plan = Plan(signature, launched, shape, source.dtype, nbytes, root=root)
        return self._keep_plan(key, plan)

    def _keep_plan(self, key: _Key, plan: Plan) -> Plan:
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[key] = plan
        return plan

    # --- where results go --------------------------------------------------------------------

    def _run_into(self, plan: Plan, source: Any, out: Any, offset: int | None = 0) -> Any:
        """Run a call whose result goes to `out` or else to new room; `offset` as in `_apart`."""
        output = self._find_room(plan, out)
        given = None if source is None else self._apart(source, output[0], offset)
        self._run(plan, given, output[0])
        return self._give(output, out)

    def _find_room(self, plan: Plan, out: Any) -> Room:
        """Return room in `out` when the result fits into it exactly, new room when it is None.

        NCCL writes in the order of C. For an `out` in Fortran's there is room beside it.
        """
        if out is None:
            return self.library.empty(plan.shape, plan.dtype)
        operation = plan.signature.operation
        view = self._view_out(operation, out)
        arguments.check_out(operation, view, plan.shape, plan.dtype)
        if not view.flags.c_contiguous:
            self._check_copy(operation)
            return self.cuda.empty(plan.shape, plan.dtype), view
        return view if view.shape == plan.shape else view.reshape(plan.shape), None

    def _give(self, output: Room, out: Any) -> Any:
        if out is None:
            return self.library.give(output)
        if output[1] is not None:
            self._write(output[1], output[0])
        return out

    def _apart(self, source: Any, target: Any, offset: int | None = 0) -> Any:
        """Return a copy of the input where the result would overwrite it too early.

        With the target so far ahead NCCL works in place; with None it never does.
        """
        ahead = target.data.ptr - source.data.ptr
        if ahead >= source.nbytes or -ahead >= target.nbytes or ahead == offset:
            return source
        self._check_copy("a call whose out overlaps its input")
        return self._copied(source, self.find_stream("copy"))


def _contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides: list[int] = []
    step = itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))
