import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.error_policy import OnError, read_on_error


@pytest.mark.parametrize("word", ["release", "interrupt", "wait"])
def test_each_way_is_read(word):
    assert read_on_error(word) is OnError(word)


@pytest.mark.parametrize("word", ["stop", "", "Release", None])
def test_another_word_names_what_is_accepted(word):
    with pytest.raises(UsageError, match=f"{word!r}.*'release'.*'interrupt'.*'wait'"):
        read_on_error(word)
