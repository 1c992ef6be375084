"""What a checkpoint is: which leaves its tree has, and in which bytes of which file each lies.

Manifest
├── structure      the containers of the saved tree, with indices of leaves
├── leaves         each with one entry for all ranks, or one for each rank
│   └── entry      an array, an object (a pickle) or a plain value
│       └── pieces   runs of bytes in a file; those of an array tile its shape
└── files          the part files, with what tells whether they are whole
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

FORMAT = 1
"""Raised when an older jupyter-dist could misread what a newer one writes."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Digits = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{32}\Z")]
"""32 hexadecimal digits."""
Box = tuple[tuple[int, int], ...]
"""A part of an array: start and stop on each axis."""
Layout = Literal["replicated", "sharded", "per_rank"]
Library = Literal["numpy", "cupy", "torch", "jax"]
Form = Literal["array", "scalar", "trained", "parameter", "frozen"]
"""What else an array was: a bare number of numpy; a tensor that requires gradients; a
torch.nn.Parameter that does, or does not."""
Plain = int | float | str | bool | None
Key = str | int | bool | None
_Kind = Literal["int", "float", "str", "bool", "none"]


class Tensor(msgspec.Struct, frozen=True):
    """One array as a part file holds it; of a sharded one that is a single block."""

    key: str
    dtype: str
    """As `ArrayEntry.dtype`."""
    shape: tuple[int, ...]


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One run of bytes in a part file, which is written and read in one go."""

    file: str
    offset: Count
    """Where it begins there, in bytes."""
    nbytes: Count
    digest: Digits
    """xxh3_128 of its bytes."""
    rank: int
    """Who wrote it."""
    key: str = ""
    """What the file itself calls it."""
    box: Box = ()
    """The part of the whole array that it holds; empty for a scalar and for an object."""


class Sharding(msgspec.Struct, frozen=True):
    """How an array lay over the ranks or devices."""

    axis: int = -1
    """The axis along which all ranks had a block; -1 where a mesh says more."""
    mesh_shape: tuple[int, ...] = ()
    mesh_axes: tuple[str, ...] = ()
    spec: tuple[tuple[str, ...], ...] = ()
    """For each axis of the array the axes of the mesh that share it."""


class ArrayEntry(msgspec.Struct, frozen=True, tag="array", kw_only=True):
    """An array."""

    dtype: str
    """numpy's name for it, or that of ml_dtypes: float32, bfloat16, float8_e4m3fn."""
    shape: tuple[Count, ...]
    """Of the whole array, however many ranks share it."""
    layout: Layout
    library: Library
    pieces: tuple[Piece, ...]
    sharding: Sharding | None = None
    form: Form = "array"


class ObjectEntry(msgspec.Struct, frozen=True, tag="object", kw_only=True):
    """Any other Python object, as a pickle."""

    type_name: str
    layout: Layout
    pieces: tuple[Piece, ...]


class PlainEntry(msgspec.Struct, frozen=True, tag="plain", kw_only=True):
    """A number, a text, a truth value or None; `plain_entry` makes one, `value_of` reads it."""

    kind: _Kind
    text: str
    """The value in a spelling that JSON cannot change: nan and integers of any size are kept."""
    layout: Layout


Entry = ArrayEntry | ObjectEntry | PlainEntry


class Leaf(msgspec.Struct, frozen=True):
    """One value of the tree."""

    path: str
    """Where it stood, as `['params']['w'][0]`."""
    by_rank: tuple[Entry | None, ...]
    """One entry when all ranks share it, else one for each rank; None: this rank had no such."""


class Branch(msgspec.Struct, frozen=True):
    """A container of the tree; a child is the index of a leaf, None or another container."""

    kind: Literal["dict", "list", "tuple", "state"]
    """The one child of a state is the state dict of an object."""
    children: tuple["int | Branch | None", ...] = ()
    keys: tuple[Key, ...] = ()
    """Of a dict and of a named tuple, one for each child."""
    type_name: str = ""
    """Of the named tuple, or of the object whose state this is."""


Node = int | Branch | None


class PartFile(msgspec.Struct, frozen=True):
    """A file with pieces of one rank."""

    name: str
    nbytes: Count
    rank: Count
    """Who wrote it."""
    host: str
    """Where it was written; there alone it may be, without shared storage."""
    digest: Digits
    """xxh3_128 of what comes before the pieces: the header."""
    header_nbytes: Count = 0


class CellSource(msgspec.Struct, frozen=True):
    """A cell that had run before."""

    label: str
    code: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a checkpoint but the data itself."""

    format: Annotated[int, msgspec.Meta(ge=1)] = FORMAT
    digest: str = ""
    """xxh3_128 of the manifest's own file with zeros in its place; set where it is written."""
    id: Digits
    """Never the same for two checkpoints."""
    step: Count
    kind: Literal["tree", "variables"]
    saved_at: str
    """UTC, as 2026-11-22T15:04:05Z."""
    cluster: str
    world_size: Annotated[int, msgspec.Meta(ge=1)]
    generation: int
    hosts: tuple[str, ...]
    """Of each rank."""
    is_shared: bool
    """All hosts saw the same directory, so all parts lie there."""
    structure: tuple[Node, ...]
    """One for all ranks, or one for each where they differ."""
    leaves: tuple[Leaf, ...]
    files: tuple[PartFile, ...]
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)
    cells: tuple[CellSource, ...] = ()
    marks: Mapping[str, int | None] = msgspec.field(default_factory=dict)
    """Variables marked for saving, with the axis along which ranks share them."""

    @property
    def nbytes(self) -> int:
        """Bytes of all part files."""
        return sum(file.nbytes for file in self.files)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables that any rank has saved; of a tree those at its top."""
        tops = [node for node in self.structure if isinstance(node, Branch)]
        return tuple(dict.fromkeys(str(key) for top in tops for key in top.keys))


_DECIMAL_BELOW = 1 << 63
_ESCAPES = re.compile("[\ud800-\udfff\\\\]")


def plain_entry(value: Plain, layout: Layout) -> PlainEntry:
    """Keep a value so that `value_of` gives it back as it was; subclasses lose what they add."""
    kind: _Kind
    match value:
        case None:
            kind, text = "none", ""
        case bool():
            kind, text = "bool", str(value)
        case int():
            # Python refuses to write very long numbers in decimal digits.
            kind, text = "int", str(value) if abs(value) < _DECIMAL_BELOW else hex(value)
        case float():
            kind, text = "float", repr(value)
        case str():
            kind, text = "str", _ESCAPES.sub(lambda found: f"\\{ord(found[0]):x};", value)
    return PlainEntry(kind=kind, text=text, layout=layout)


def value_of(entry: PlainEntry) -> Plain:
    """Return the value that was saved; ValueError when this is no spelling of one."""
    match entry.kind:
        case "none":
            return None
        case "bool":
            if entry.text not in {"True", "False"}:
                raise ValueError(f"{entry.text!r} is no truth value")
            return entry.text == "True"
        case "int":
            return int(entry.text, 0)
        case "float":
            return float(entry.text)
        case "str":
            return re.sub(r"\\([0-9a-f]+);", lambda found: chr(int(found[1], 16)), entry.text)
