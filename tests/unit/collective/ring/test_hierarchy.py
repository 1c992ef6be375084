from jupyter_dist.collective.ring.hierarchy import Layout, group_by_host

HOSTS = group_by_host(["10.0.0.1:1", "10.0.0.2:1", "10.0.0.2:2", "10.0.0.1:2", "[fd00::1]:7"])


def test_ranks_are_grouped_by_address_in_the_order_of_their_first_ones():
    layout = Layout(HOSTS, 2)
    assert layout.hosts == [[0, 3], [1, 2], [4]]
    assert (layout.here, layout.most) == (1, 2)


def test_the_last_rank_leads_its_host_or_else_the_root():
    layout = Layout(HOSTS, 0)
    assert layout.leaders() == {3: [0, 3], 2: [1, 2], 4: [4]}
    assert layout.leaders(1) == {3: [0, 3], 1: [1, 2], 4: [4]}


def test_a_rank_knows_which_neighbours_are_elsewhere():
    elsewhere = [Layout(HOSTS, rank).neighbours_elsewhere for rank in range(5)]
    assert elsewhere == [[True, True], [True, False], [False, True], [True, True], [True, True]]
    assert Layout([[0]], 0).neighbours_elsewhere == [False, False]
