import pytest

from jupyter_dist.probe.pci import PciPlace, device_address, read_number


def place(path, numa_node=0):
    return PciPlace(tuple(path.split()), numa_node)


GPU = place("pci0000:14 0000:14:01.0 0000:15:00.0 0000:16:00.0 0000:17:00.0")


@pytest.mark.parametrize(
    ("other", "way"),
    [
        ("pci0000:14 0000:14:01.0 0000:15:00.0 0000:16:01.0 0000:18:00.0", "PIX"),
        ("pci0000:14 0000:14:01.0 0000:15:00.0 0000:16:02.0 0000:19:00.0 0000:1b:00.0", "PXB"),
        ("pci0000:14 0000:14:02.0 0000:20:00.0", "PHB"),
        ("pci0000:27 0000:27:01.0 0000:29:00.0", "NODE"),
        ("", ""),
    ],
)
def test_the_way_between_two_devices_has_a_name(other, way):
    assert GPU.distance_to(place(other)) == way
    assert place(other).distance_to(GPU) == way


def test_between_numa_nodes_the_way_is_longest_and_without_them_unknown():
    far = "pci0000:97 0000:97:01.0 0000:98:00.0"
    assert GPU.distance_to(place(far, 1)) == "SYS"
    assert GPU.distance_to(place(far, -1)) == ""


def test_functions_of_one_card_are_as_near_as_can_be():
    one, other = (
        place("pci0000:e1 0000:e1:02.0 0000:e5:00.0"),
        place("pci0000:e1 0000:e1:02.0 0000:e5:00.1"),
    )
    assert one.distance_to(other) == "PIX"


def test_the_path_has_only_what_stands_on_pci(tmp_path):
    card = tmp_path / "devices" / "pci0000:00" / "0000:00:03.0" / "virtio2"
    card.mkdir(parents=True)
    link = tmp_path / "device"
    link.symlink_to(card)
    assert PciPlace.of(link) == PciPlace(("pci0000:00", "0000:00:03.0"), -1)
    (card / "numa_node").write_text("1\n")
    assert PciPlace.of(link).numa_node == 1
    assert PciPlace.of(tmp_path / "nothing") == PciPlace((), -1)


@pytest.mark.parametrize(
    ("bus", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("00010000:3B:00.0", "00010000:3b:00.0"),
        ("0002:01:00.0", "0002:01:00.0"),
    ],
)
def test_addresses_of_nvml_are_written_as_the_system_does(bus, address):
    assert device_address(bus) == address


@pytest.mark.parametrize(("text", "number"), [("7\n", 7), ("-1", -1), ("", 4), ("x", 4)])
def test_a_file_without_a_number_gives_the_usual_one(tmp_path, text, number):
    path = tmp_path / "file"
    path.write_text(text)
    assert read_number(path, default=4) == number
    assert read_number(tmp_path / "nothing", default=4) == 4
