from jupyter_dist.checkpoint.table import CheckpointSeen, RankFound, tabulate_checkpoints


def seen(name, step, saved_at="2026-11-22T14:03:12.5Z", **more):
    fields = {
        "id": f"{name}-{step}",
        "world_size": 4,
        "nbytes": 1 << 20,
        "variables": ("weights", "step"),
        **more,
    }
    path = f"/d/{name}/step-{step:08}"
    return CheckpointSeen(name=name, step=step, path=path, saved_at=saved_at, **fields)


def found(*checkpoints, problems=()):
    return RankFound("/d", "", checkpoints, problems)


def test_the_checkpoints_of_a_directory_are_a_table():
    table = tabulate_checkpoints("/d", {"a": found(seen("run", 12), seen("run", 2))})
    assert str(table).splitlines() == [
        "name  step  saved (UTC)          ranks  size   holds",
        "run   2     2026-11-22 14:03:12  4      1 MiB  weights, step",
        "run   12    2026-11-22 14:03:12  4      1 MiB  weights, step",
        "in /d",
    ]


def test_one_that_all_hosts_see_names_no_host_and_one_that_some_see_does():
    told = {"a": found(seen("run", 1), seen("run", 2)), "b": found(seen("run", 2))}
    table = tabulate_checkpoints("/d", told)
    assert [row.hosts for row in table.rows] == [("a",), ()]
    head, first, second, *_ = str(table).splitlines()
    assert head.endswith("on hosts")
    assert first.endswith(" a")
    assert second.endswith("weights, step")


def test_two_hosts_with_their_own_step_of_one_number_have_two_rows():
    told = {"a": found(seen("run", 1, id="x")), "b": found(seen("run", 1, id="y"))}
    assert [row.hosts for row in tabulate_checkpoints("/d", told).rows] == [("a",), ("b",)]


def test_a_tree_says_how_it_is_restored():
    table = tabulate_checkpoints("/d", {"a": found(seen("", 1, variables=()))})
    head, line, _ = str(table).splitlines()
    assert not head.startswith("name")
    assert line.endswith("a tree, for checkpoint.restore")


def test_the_newest_is_the_one_that_was_saved_last_whatever_its_number():
    table = tabulate_checkpoints(
        "/d",
        {"a": found(seen("x", 90, "2026-11-22T10:00:00Z"), seen("y", 1, "2026-11-22T11:00:00Z"))},
    )
    assert (table.newest.name, table.newest.when) == ("y", "2026-11-22 11:00:00")


def test_an_empty_directory_says_so_and_what_is_wrong_in_it():
    table = tabulate_checkpoints("/d", {"a": found(problems=("/d/x: damaged",)), "b": found()})
    assert table.newest is None
    assert str(table).splitlines() == [
        "no checkpoint in /d",
        "cannot be used on a: /d/x: damaged",
    ]


def test_what_all_hosts_find_damaged_is_said_once():
    told = {"a": found(problems=("/d/x: damaged",)), "b": found(problems=("/d/x: damaged",))}
    assert tabulate_checkpoints("/d", told).notes == ("cannot be used: /d/x: damaged",)


def test_a_part_that_no_host_sees_is_named_and_the_one_before_is_the_newest():
    here = seen("run", 2, "2026-11-22T12:00:00Z", missing=("arrays-00001.safetensors", "b"))
    there = seen("run", 2, "2026-11-22T12:00:00Z", missing=("a", "b"))
    told = {"a": found(here, seen("run", 1)), "b": found(there, seen("run", 1))}
    table = tabulate_checkpoints("/d", told)
    assert [row.missing for row in table.rows] == [(), ("b",)]
    head, _, second, _ = str(table).splitlines()
    assert head.endswith("missing")
    assert second.endswith(" b")
    assert table.newest.step == 1


def test_parts_that_are_spread_over_hosts_are_all_there():
    told = {
        "a": found(seen("run", 2, missing=("a",))),
        "b": found(seen("run", 2, missing=("b",))),
    }
    table = tabulate_checkpoints("/d", told)
    assert "missing" not in str(table)
    assert table.newest.step == 2
