"""The cluster's own certificate authority; its key never leaves the coordinator's memory."""

import datetime as dt
import hashlib
import inspect
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from jupyter_dist.launch.launcher import SERVER_NAME

_LONGEST_NAME = 64
_LIFETIME = dt.timedelta(days=90)
_CLOCK_SKEW = dt.timedelta(hours=24)


class Certificate(NamedTuple):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    private_key: bytes


class Authority:
    """Issues the coordinator's certificate and one for each host."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("jupyter-dist cluster")
        builder = _builder(self._name, self._name, self._key.public_key())
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_may("key_cert_sign"), critical=True)
            .add_extension(_own_mark(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)
        """The authority's own, PEM."""

    def issue_server(self) -> Certificate:
        """Issue the coordinator's certificate."""
        return self._issue(SERVER_NAME, ExtendedKeyUsageOID.SERVER_AUTH)

    def issue_agent(self, host: str) -> Certificate:
        """Issue the certificate with which the agent of this host proves itself."""
        return self._issue(host, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(self, common_name: str, usage: x509.ObjectIdentifier) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_name(common_name), self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_may("digital_signature"), critical=True)
            .add_extension(_own_mark(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        return Certificate(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )


def _may(usage: str) -> x509.KeyUsage:
    """Allow a key this one usage; strict verifiers want it said."""
    usages = dict.fromkeys(inspect.signature(x509.KeyUsage).parameters, False)
    return x509.KeyUsage(**{**usages, usage: True})


def _own_mark(key: ec.EllipticCurvePublicKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key)


def common_name(name: str) -> str:
    """Return a name as certificates carry it: those of more than 64 characters as their digest."""
    return name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name(name))])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)  # hosts' clocks differ
        .not_valid_after(now + _LIFETIME)
    )
