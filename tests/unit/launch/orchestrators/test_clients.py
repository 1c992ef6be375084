import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.orchestrators import clients
from jupyter_dist.launch.orchestrators.clients import check_client
from jupyter_dist.model.spec.batch import ORCHESTRATORS, BatchSpec


@pytest.mark.parametrize("system", ORCHESTRATORS)
def test_a_client_that_is_missing_is_named_with_its_extra(system, monkeypatch):
    monkeypatch.setattr(clients, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=rf"pip install 'jupyter-dist\[{system}\]'"):
        check_client(BatchSpec(system=system, nodes=1))


@pytest.mark.parametrize(
    ("template", "told"),
    [("", "missing"), ("a: [", "no YAML"), ("kind: Pod", "no image"), ("just text", "no image")],
)
def test_kubernetes_wants_a_manifest_with_an_image(template, told, monkeypatch):
    pytest.importorskip("yaml")
    monkeypatch.setattr(clients, "find_spec", lambda _: True)
    with pytest.raises(UsageError, match=told):
        check_client(BatchSpec(system="kubernetes", nodes=1, template=template))
