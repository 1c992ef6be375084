import pytest
from fakes.elf import build_library


@pytest.fixture
def fatbin(program):
    return program("kit", "fatbin")


def test_only_the_code_of_one_architecture_stays_and_nothing_moves(fatbin):
    library, places = build_library(
        {".nv_fatbin": [(80, b"old" * 9), (90, b"ours" * 5), (100, b"new")]},
        plain={".text": b"host code", ".debug_info": b"names"},
    )
    trimmed = fatbin.trim(library, 90)
    assert len(trimmed) == len(library)
    start, size = places[90]
    assert trimmed[start : start + size] == b"ours" * 5
    assert b"host code" in trimmed
    for gone in (b"old", b"new", b"names"):
        assert gone not in trimmed
    kept = bytearray(library)
    for arch in (80, 100, ".debug_info"):
        start, size = places[arch]
        kept[start : start + size] = bytes(size)
    assert trimmed == kept, "headers, and all that lies between them, are as they were"


def test_what_only_a_linker_reads_stays_on_demand(fatbin):
    library, _ = build_library(
        {".nv_fatbin": [(90, b"linked")], "__nv_relfatbin": [(90, b"relocatable")]}
    )
    assert b"relocatable" not in fatbin.trim(library, 90)
    assert b"relocatable" in fatbin.trim(library, 90, keep_relocatable=True)


def test_several_fatbins_in_a_section_are_all_found(fatbin):
    library, _ = build_library({".nv_fatbin": [(90, b"one")]}, more=[(80, b"two"), (90, b"three")])
    trimmed = fatbin.trim(library, 90)
    assert b"one" in trimmed
    assert b"three" in trimmed
    assert b"two" not in trimmed


@pytest.mark.parametrize("library", [b"", b"PK\x03\x04" * 20])
def test_what_is_no_library_is_refused(fatbin, library):
    with pytest.raises(ValueError, match="no library"):
        fatbin.trim(library, 90)


def test_a_library_without_that_architecture_is_refused(fatbin):
    library, _ = build_library({".nv_fatbin": [(80, b"old")]})
    with pytest.raises(ValueError, match="sm_90"):
        fatbin.trim(library, 90)
