import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

from jupyter_dist.protocol.plain_values import plain_bundle, plain_id, plain_text
from tests.rubbish import BUNDLES, RUBBISH


@given(BUNDLES)
@settings(max_examples=300)
def test_whatever_is_in_a_bundle_it_can_be_written_as_json_and_read_as_its_message(data):
    plain = plain_bundle(data)
    json.dumps(plain).encode()
    json.dumps(plain, ensure_ascii=False).encode()
    body = msgspec.msgpack.encode(plain)
    again = msgspec.msgpack.decode(body, type=dict[str, object])
    assert repr(again) == repr(plain)  # NaN differs from itself
    assert repr(plain_bundle(plain)) == repr(plain)


@given(RUBBISH)
def test_whatever_names_a_display_is_text(value):
    name = plain_id(value)
    assert type(name) is str
    name.encode()


def test_what_a_notebook_takes_stays_as_it_is():
    bundle = {"text/plain": "ä", "application/json": {"a": [1, 2.5, None, True, {"b": -1}]}}
    assert plain_bundle(bundle) == bundle


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (5, "5"),
        (None, "null"),
        (True, "true"),
        (b"k", "k"),
        ((1, 2), "(1, 2)"),
        ("\ud800", "\\ud800"),
    ],
)
def test_keys_are_text_as_in_json(key, name):
    assert plain_bundle({key: 1}) == {name: 1}


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (2**70, str(2**70)),
        (np.int64(4), 4),
        (np.float32(1.5), 1.5),
        (np.arange(3), "array([0, 1, 2])"),
        ({1}, [1]),
        ((1, "a"), [1, "a"]),
        (b"\x89PNG", "iVBORw=="),
    ],
)
def test_values_of_other_types_cross_as_what_is_closest(value, plain):
    assert plain_bundle({"a": value}) == {"a": plain}


class Hostile(dict):
    """Raises whatever is asked of it."""

    def __init__(self, error):
        super().__init__(a=1)
        self.error = error

    def items(self):
        raise self.error

    def __repr__(self):
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), RecursionError()])
def test_objects_that_raise_are_named(error):
    class Shy:
        def __repr__(self):
            raise error

    said = plain_bundle({"a": Shy()})["a"]
    assert "Shy" in said
    assert type(error).__name__ in said
    if isinstance(error, Exception):
        assert type(plain_bundle({"a": Hostile(error)})["a"]) is str


def test_text_of_a_class_of_its_own_is_plain_text():
    class Text(str):
        __slots__ = ()

        def encode(self, *_):
            raise ValueError

    assert type(plain_text(Text("a\ud800"))) is str
    assert plain_bundle({Text("k"): Text("a\ud800")}) == {"k": "a\\ud800"}


def test_a_list_in_itself_costs_no_eternity_however_often_it_is():
    tree = []
    tree.append(tree)
    for _ in range(60):
        tree = [tree, tree]
    assert len(json.dumps(plain_bundle({"a": tree}))) < 10_000_000
