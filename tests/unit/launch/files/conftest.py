import pytest


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    """Give the folder of connection files, which is not there yet."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime"
