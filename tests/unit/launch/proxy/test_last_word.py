from jupyter_dist.launch.proxy.last_word import LastWord, last_word_path


def test_it_is_read_when_the_folder_is_gone(tmp_path):
    log = tmp_path / "proxy.log"
    last_word_path(log).touch()
    word = LastWord(str(log))
    assert word.read() == ""
    last_word_path(log).write_text("Slurm job 12 was cancelled")
    last_word_path(log).unlink()
    assert word.read() == "Slurm job 12 was cancelled"
    word.close()
    assert word.read() == ""


def test_who_says_nothing_leaves_no_word(tmp_path):
    assert LastWord(str(tmp_path / "proxy.log")).read() == ""
