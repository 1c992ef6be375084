import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jupyter_dist.agent.connection import coordinator_stream as home
from jupyter_dist.coordinator.agents.certificates import SERVER_NAME, Authority, common_name


@pytest.fixture(scope="module")
def authority():
    return Authority()


def load(pem):
    return x509.load_pem_x509_certificate(pem)


def usages(certificate):
    return list(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def test_both_ends_know_the_coordinator_by_the_same_name():
    assert home.SERVER_NAME == SERVER_NAME


def test_what_the_authority_issues_verifies_against_it_and_no_other(authority):
    certificate = load(authority.issue_agent("a").certificate)
    certificate.verify_directly_issued_by(load(authority.certificate))
    other = load(Authority().certificate)
    with pytest.raises(InvalidSignature):
        certificate.verify_directly_issued_by(other)


def test_the_private_key_fits_its_certificate_and_no_other(authority):
    issued = authority.issue_server()
    key = load_pem_private_key(issued.private_key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.public_key() == load(issued.certificate).public_key()
    assert issued.private_key != authority.issue_server().private_key


def test_an_agent_cannot_pass_as_the_coordinator(authority):
    assert usages(load(authority.issue_agent("a").certificate)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert usages(load(authority.issue_server().certificate)) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_an_agent_cannot_issue_certificates(authority):
    def may_issue(pem):
        return load(pem).extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    assert may_issue(authority.certificate)
    assert not may_issue(authority.issue_agent("a").certificate)


@pytest.mark.parametrize("host", ["node-7", "x" * 64, "x" * 200])
def test_an_agents_certificate_carries_its_host(authority, host):
    subject = load(authority.issue_agent(host).certificate).subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == common_name(host)


def test_names_too_long_for_a_certificate_stay_different_from_each_other():
    assert common_name("x" * 64) == "x" * 64
    assert common_name("x" * 65 + "a") != common_name("x" * 65 + "b")
    assert len(common_name("x" * 65)) == 64


def test_a_certificate_is_valid_on_a_host_whose_clock_is_hours_behind(authority):
    certificate = load(authority.issue_server().certificate)
    lifetime = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert lifetime.total_seconds() > 24 * 3600
    assert 89 <= lifetime.days <= 92
