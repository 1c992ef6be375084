import math

import msgspec
import pytest
from fakes.checkpoint_files import make_manifest
from hypothesis import example, given
from hypothesis import strategies as st

from jupyter_dist.checkpoint.format.manifest import (
    Branch,
    Manifest,
    PartFile,
    PlainEntry,
    plain_entry,
    value_of,
)


def through_json(value):
    entry = msgspec.json.encode(plain_entry(value, "replicated"))
    return value_of(msgspec.json.decode(entry, type=PlainEntry))


@given(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
)
@example("\\5c; \ud800 \\\\ é\0")
@example(-(1 << 70_000))
@example(-0.0)
@example(2**63)
def test_a_plain_value_comes_back_through_json_as_it_was(value):
    found = through_json(value)
    assert type(found) is type(value)
    if isinstance(value, float):
        assert math.copysign(1, found) == math.copysign(1, value) or math.isnan(value)
        assert found == value or (math.isnan(found) and math.isnan(value))
    else:
        assert found == value


@pytest.mark.parametrize(
    ("kind", "text"), [("bool", "yes"), ("int", "one"), ("float", ""), ("str", "\\fffffff;")]
)
def test_what_is_no_value_is_refused(kind, text):
    with pytest.raises((ValueError, OverflowError)):
        value_of(PlainEntry(kind=kind, text=text, layout="replicated"))


def test_containers_keep_the_types_of_their_keys():
    tree = Branch("dict", (0, Branch("list", (1, None)), 2, None), (1, "1", True, None))
    manifest = make_manifest(structure=(tree,))
    assert msgspec.json.decode(msgspec.json.encode(manifest), type=Manifest) == manifest


def test_a_checkpoint_has_the_bytes_of_all_its_files():
    files = [PartFile(name, 10, 0, "nodeA", "", 0) for name in "ab"]
    assert make_manifest(files=files).nbytes == 20
