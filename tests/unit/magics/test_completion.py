def test_options_complete(complete):
    assert {"--name", "--keep", "--env", "--comm"} <= complete("%dist_start --")
    assert complete("%dist_start --na") == {"--name"}
    assert complete("%dist_restore run --o") == {"--objects"}
    assert complete("%dist_bench --no") == {"--no-check"}


def test_options_of_a_cell_magic_complete(complete):
    assert complete("%%spmd --") == {
        *("--ranks", "--show", "--timeout", "--setup", "--check", "--quiet", "--on-error")
    }


def test_an_option_given_already_is_not_offered_again(complete):
    assert "--name" not in complete("%dist_start --name a --")


def test_values_complete(complete):
    assert complete("%%spmd --on-error i") == {"interrupt"}
    assert complete("%dist_bench --dtype int6") == {"int64"}
    assert complete("%dist_start --comm r") == {"ring"}
    assert complete("%dist_auto o") == {"on", "off"}


def test_running_clusters_complete(run, complete):
    run("%dist_start --name weather")
    assert complete("%dist_attach w") == {"weather"}


def test_only_the_line_of_the_magic_completes_as_options(shell, complete):
    shell.Completer.jedi_compute_type_timeout = 0  # what each name is costs most of the time
    found = complete("%%spmd\nx = --")
    assert "--ranks" not in found
    assert "print" in found, "names complete there"


def test_the_name_of_a_magic_itself_completes(complete):
    assert "%dist_start" in complete("%dist_sta")


def test_variables_complete_where_a_name_is_wanted(run, complete):
    run("learning_rate = 1")
    assert "learning_rate" in complete("%dist_push learn")
