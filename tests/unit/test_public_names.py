import jupyter_dist


def test_the_package_completes_to_what_it_offers():
    assert {"Cluster", "SpmdResult", "__version__"} <= set(dir(jupyter_dist))
    assert not {"Any", "TYPE_CHECKING", "import_module"} & set(dir(jupyter_dist))
