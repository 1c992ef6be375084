import pytest


@pytest.fixture
def spec_file(tmp_path):
    """Write a specification; gives its path."""

    def write(text):
        path = tmp_path / "cluster.toml"
        path.write_text(text)
        return path

    return write
