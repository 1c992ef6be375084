from jupyter_dist.collective.group import Group, Scope


def test_members_of_the_communicator_of_all_have_the_same_ranks_in_the_cluster():
    group = Group(2, 4, 1)
    assert group.members == (0, 1, 2, 3)
    assert group.world_rank == 2
    assert group.label == ""


def test_members_of_a_group_have_ranks_of_their_own():
    group = Group(0, 2, 1, "1,3~2", (3, 1))
    assert group.members == (3, 1)
    assert group.world_rank == 3


def test_every_group_has_a_label_of_its_own():
    scope = Scope()
    labels = [scope.label(members) for members in ("0-1", "2-3", "0-1", "0-1", "2-3")]
    assert labels == ["0-1", "2-3", "0-1~2", "0-1~3", "2-3~2"]
