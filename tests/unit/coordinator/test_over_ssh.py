import pytest

from jupyter_dist.coordinator import over_ssh
from jupyter_dist.errors import StartFailed


def test_a_cluster_that_is_not_found_says_in_which_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(StartFailed, match=f"'demo' .*{tmp_path}.*JUPYTER_RUNTIME_DIR"):
        over_ssh._find("demo")
