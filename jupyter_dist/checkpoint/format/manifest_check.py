"""Whether a manifest can be true: it is read from a disk, and decides which files are opened."""

from collections.abc import Iterator, Mapping
from itertools import chain

from jupyter_dist.checkpoint.format.manifest import (
    ArrayEntry,
    Branch,
    Entry,
    Leaf,
    Manifest,
    Node,
    ObjectEntry,
    PartFile,
    Piece,
    PlainEntry,
    value_of,
)
from jupyter_dist.checkpoint.format.number_types import array_bytes
from jupyter_dist.checkpoint.format.sharding import box_shape, find_mistile


def is_plain_name(name: str) -> bool:
    """Return whether this names a file in a directory itself, and none that is hidden."""
    return bool(name) and not name.startswith(".") and name.isprintable() and "/" not in name


def find_problem(manifest: Manifest) -> str:
    """Return the first thing that its types let through and cannot be; empty if there is none."""
    return next(
        chain(
            _problems_of_files(manifest),
            _problems_of_structure(manifest),
            _problems_of_leaves(manifest),
        ),
        "",
    )


def _problems_of_files(manifest: Manifest) -> Iterator[str]:
    if len(manifest.hosts) != manifest.world_size:
        yield f"it names hosts of {len(manifest.hosts)} of {manifest.world_size} ranks"
    names = [file.name for file in manifest.files]
    if len(set(names)) != len(names):
        yield "it names a file twice"
    for file in manifest.files:
        if not is_plain_name(file.name):
            yield f"{file.name!r} is no plain file name"
        elif file.rank >= manifest.world_size:
            yield f"{file.name} is of rank {file.rank} of {manifest.world_size}"
        elif file.header_nbytes > file.nbytes:
            yield f"{file.name} has {file.nbytes} bytes, and a header of {file.header_nbytes}"


def _problems_of_structure(manifest: Manifest) -> Iterator[str]:
    count = len(manifest.structure)
    if count not in {1, manifest.world_size}:
        yield f"it has {count} trees for {manifest.world_size} ranks"
    open_nodes: list[Node] = list(manifest.structure)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, int):
            if not 0 <= node < len(manifest.leaves):
                yield f"its tree has leaf {node} of {len(manifest.leaves)}"
        elif isinstance(node, Branch):
            open_nodes.extend(node.children)
            yield from _problems_of_branch(node)


def _problems_of_branch(branch: Branch) -> Iterator[str]:
    keys, children = len(branch.keys), len(branch.children)
    accepted = {"dict": {children}, "tuple": {0, children}}.get(branch.kind, {0})
    if keys not in accepted:
        yield f"a {branch.kind} of its tree has {keys} keys for {children} values"
    if len(set(branch.keys)) != keys:
        yield f"a {branch.kind} of its tree has a key twice"
    if branch.kind == "state" and children != 1:
        yield f"a state of its tree has {children} values"


def _problems_of_leaves(manifest: Manifest) -> Iterator[str]:
    files = {file.name: file for file in manifest.files}
    paths = {leaf.path for leaf in manifest.leaves}
    if len(paths) != len(manifest.leaves):
        yield "it has a leaf twice"
    for leaf in manifest.leaves:
        for problem in _problems_of_leaf(leaf, manifest.world_size, files):
            yield f"{leaf.path or 'its leaf'}: {problem}"


def _problems_of_leaf(leaf: Leaf, world_size: int, files: Mapping[str, PartFile]) -> Iterator[str]:
    entries = [entry for entry in leaf.by_rank if entry is not None]
    layouts = {entry.layout for entry in entries}
    expected = world_size if layouts == {"per_rank"} else 1
    if len(layouts) != 1 or len(leaf.by_rank) != expected:
        yield f"it has {len(leaf.by_rank)} entries for {world_size} ranks"
    for entry in entries:
        yield from _problems_of_entry(entry, files)


def _problems_of_entry(entry: Entry, files: Mapping[str, PartFile]) -> Iterator[str]:
    match entry:
        case ArrayEntry():
            yield from _problems_of_array(entry)
            yield from chain.from_iterable(_problems_of_piece(one, files) for one in entry.pieces)
        case ObjectEntry():
            if len(entry.pieces) != 1:
                yield f"an object has {len(entry.pieces)} pieces"
            yield from chain.from_iterable(_problems_of_piece(one, files) for one in entry.pieces)
        case PlainEntry():
            try:
                value_of(entry)
            except (ValueError, OverflowError):
                yield f"{entry.text!r} is no {entry.kind}"


def _problems_of_array(entry: ArrayEntry) -> Iterator[str]:
    how = entry.sharding
    if how is not None and not (-1 <= how.axis < len(entry.shape) >= len(how.spec)):
        yield f"it has {len(entry.shape)} axes, and is shared along {how.axis} or {how.spec}"
    mistile = find_mistile(entry.shape, [piece.box for piece in entry.pieces])
    if mistile:
        yield mistile
        return
    try:
        sizes = [array_bytes(entry.dtype, box_shape(piece.box)) for piece in entry.pieces]
        array_bytes(entry.dtype, ())
    except ValueError:
        yield f"its dtype is {entry.dtype!r}"
        return
    for size, piece in zip(sizes, entry.pieces, strict=True):
        if size != piece.nbytes:
            yield f"a piece of {size} bytes has {piece.nbytes}"


def _problems_of_piece(piece: Piece, files: Mapping[str, PartFile]) -> Iterator[str]:
    file = files.get(piece.file)
    if file is None:
        yield f"it lies in {piece.file!r}, which is not among the files"
    elif piece.rank != file.rank:
        yield f"rank {piece.rank} wrote it into {piece.file} of rank {file.rank}"
    elif not file.header_nbytes <= piece.offset <= piece.offset + piece.nbytes <= file.nbytes:
        yield f"it lies beyond the end of {piece.file}"
