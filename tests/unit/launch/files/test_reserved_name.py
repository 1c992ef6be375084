import os

from jupyter_dist.launch.files.connection_file import connection_path
from jupyter_dist.launch.files.reserved_name import reserve_name


def test_a_reserved_name_is_not_chosen_again_until_it_is_closed(runtime):
    first, second = reserve_name(()), reserve_name(())
    assert (first.name, second.name) == ("cluster-1", "cluster-2")
    first.close()
    first.close()
    third, fourth = reserve_name(()), reserve_name(())
    assert (third.name, fourth.name) == ("cluster-1", "cluster-3")
    for each in (second, third, fourth):
        each.close()
    assert list(runtime.iterdir()) == []


def test_what_is_taken_and_what_lies_in_its_place_are_passed_over(runtime):
    runtime.mkdir()
    connection_path("cluster-2").symlink_to(connection_path("cluster-2"))
    os.mkfifo(connection_path("cluster-3"))
    reserved = reserve_name({"cluster-1"})
    assert reserved.name == "cluster-4"
    reserved.close()


def test_what_a_killed_start_has_left_reserves_nothing(runtime):
    runtime.mkdir()
    connection_path("cluster-1").with_suffix(".reserved").touch()
    reserved = reserve_name(())
    assert reserved.name == "cluster-1"
    reserved.close()
    assert list(runtime.iterdir()) == []


def test_where_nothing_can_be_locked_a_name_is_free_all_the_same(runtime):
    runtime.mkdir()
    path = connection_path("cluster-1").with_suffix(".reserved")
    path.symlink_to(path)
    for _ in range(2):
        assert reserve_name(()).name == "cluster-1"
