"""TLS, client certificates and tokens, against a server in this process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from support.service import Serving

import pausewatch as pw


@dataclass
class Authority:
    """A certificate authority, and the files of what it has signed."""

    ca: trustme.CA
    folder: Path

    def file(self, name: str, blob: trustme.Blob) -> Path:
        path = self.folder / name
        blob.write_to_path(path)
        return path

    def issue(self, name: str) -> tuple[Path, Path]:
        issued = self.ca.issue_cert(name)
        chain = self.file(f"{name}.pem", issued.cert_chain_pems[0])
        return chain, self.file(f"{name}.key", issued.private_key_pem)

    def server_credentials(self, *, mutual: bool) -> grpc.ServerCredentials:
        chain, key = self.issue("localhost")
        ca = self.ca.cert_pem.bytes() if mutual else None
        return grpc.ssl_server_credentials([(key.read_bytes(), chain.read_bytes())], ca, mutual)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(trustme.CA(), tmp_path)


def test_tls_with_an_own_certificate_authority(authority: Authority) -> None:
    ca = authority.file("ca.pem", authority.ca.cert_pem)
    with Serving(authority.server_credentials(mutual=False)) as serving:
        with pw.Client.from_env(address=serving.address, tls_ca=ca) as client:
            assert client.get_pause_state("t").thread_id == "t"
        other = authority.file("other.pem", trustme.CA().cert_pem)
        with pw.Client.from_env(address=serving.address, tls_ca=other) as client, pytest.raises(pw.TransientError):
            client.get_pause_state("t", deadline=0.5)


async def test_mutual_tls_sends_the_client_certificate(authority: Authority) -> None:
    ca = authority.file("ca.pem", authority.ca.cert_pem)
    cert, key = authority.issue("client@example.com")
    with Serving(authority.server_credentials(mutual=True)) as serving:
        async with pw.AsyncClient.from_env(address=serving.address, tls_ca=ca, tls_cert=cert, tls_key=key) as client:
            assert (await client.get_pause_state("t")).thread_id == "t"
        async with pw.AsyncClient.from_env(address=serving.address, tls_ca=ca, deadline=0.5) as client:
            with pytest.raises(pw.TransientError):
                await client.get_pause_state("t")


@pytest.mark.parametrize("client", [pw.Client, pw.AsyncClient])
@pytest.mark.parametrize(
    "contents", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", b"\xff"]
)
def test_a_file_without_an_authority_is_reported_at_once(
    authority: Authority, client: type[pw.Client | pw.AsyncClient], contents: bytes
) -> None:
    ca = authority.file("ca.pem", trustme.Blob(contents))
    with pytest.raises(pw.ConfigError, match=r"tls_ca .*ca\.pem: not a PEM file with certificates"):
        client.from_env(address="https://localhost", tls_ca=ca)


def test_authority_files_may_have_comments_in_any_alphabet(authority: Authority) -> None:
    bundle = "# Autoridad de Certificación\n".encode() + authority.ca.cert_pem.bytes()
    ca = authority.file("ca.pem", trustme.Blob(bundle + trustme.CA().cert_pem.bytes()))
    with Serving(authority.server_credentials(mutual=False)) as serving:
        with pw.Client.from_env(address=serving.address, tls_ca=ca) as client:
            assert client.get_pause_state("t").thread_id == "t"


def test_an_invalid_certificate_or_a_wrong_key_is_reported_at_once(authority: Authority) -> None:
    cert, key = authority.issue("client@example.com")
    _, other_key = authority.issue("other@example.com")
    nothing = authority.file("nothing.pem", trustme.Blob(b"nothing"))
    for tls_cert, tls_key in ((nothing, key), (cert, nothing), (cert, other_key)):
        with pytest.raises(pw.ConfigError) as error:
            pw.Client.from_env(address="https://localhost", tls_cert=tls_cert, tls_key=tls_key)
        assert f"tls_cert {tls_cert} and tls_key {tls_key}: are no PEM files" in str(error.value)
    pw.Client.from_env(address="https://localhost", tls_cert=cert, tls_key=key).close()


def test_an_encrypted_key_is_refused_without_a_password_prompt(authority: Authority) -> None:
    cert, key = authority.issue("client@example.com")
    encryption = serialization.BestAvailableEncryption(b"secret")
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    with pytest.raises(pw.ConfigError, match="must not be encrypted"):
        pw.Client.from_env(address="https://localhost", tls_cert=cert, tls_key=key)


def test_nothing_falls_back_to_plain_text(authority: Authority) -> None:
    ca = authority.file("ca.pem", authority.ca.cert_pem)
    with Serving() as serving:
        secure = f"https://{serving.address}"
        with pw.Client.from_env(address=secure, tls_ca=ca) as client, pytest.raises(pw.TransientError):
            client.get_pause_state("t", deadline=0.5)
        assert serving.service.metadata == []


def test_the_token_is_sent_with_every_kind_of_call() -> None:
    with Serving() as serving, pw.Client.from_env(address=serving.address, token="s3cret") as client:
        client.get_pause_state("t")
        with client.hold("t"):
            pass
        with client.watch(["t"]) as watch:
            assert isinstance(next(watch), pw.State)
        assert len(serving.service.metadata) == 4
        assert {call["authorization"] for call in serving.service.metadata} == {"Bearer s3cret"}


async def test_the_token_is_sent_by_the_asynchronous_client_too() -> None:
    with Serving() as serving:
        async with pw.AsyncClient.from_env(address=serving.address, token="s3cret") as client:
            async with client.hold("t"):
                pass
            async with client.watch(["t"]) as watch:
                assert isinstance(await anext(watch), pw.State)
        assert {call["authorization"] for call in serving.service.metadata} == {"Bearer s3cret"}


def test_without_a_token_there_is_no_header() -> None:
    with Serving() as serving, pw.Client.from_env(address=serving.address) as client:
        client.get_pause_state("t")
        assert "authorization" not in serving.service.metadata[0]
