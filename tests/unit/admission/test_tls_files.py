"""What is served follows the files, and never becomes worse than it was."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from prometheus_client import CollectorRegistry

from kapilite.credentials.pki import Pki, ensure
from laneway.admission.metrics import AdmissionMetrics
from laneway.admission.tls import ClientAuthorityError, TlsFiles
from laneway.core.certificates.rotation import LIFE, new_pair
from laneway.core.certificates.secret import Pair

NAME = "laneway-webhook.harvester-system.svc"


class Served:
    """Files, and what a client sees of them."""

    def __init__(self, folder: Path) -> None:
        self.registry = CollectorRegistry()
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        self.files = TlsFiles(str(self.cert), str(self.key), AdmissionMetrics(self.registry))

    def put(self, pair: Pair) -> None:
        self.cert.write_bytes(pair.certificate_pem)
        self.key.write_bytes(pair.key_pem)
        self.files.look()

    def metric(self, name: str) -> float:
        return self.registry.get_sample_value(f"laneway_webhook_certificate_{name}") or 0.0

    def shows(self, pair: Pair) -> bool:
        """Whether a new connection gets this certificate, and can be made at all."""
        client = ssl.create_default_context()
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        a_in, a_out, b_in, b_out = (ssl.MemoryBIO() for _ in range(4))
        there = self.files.context.wrap_bio(a_in, a_out, server_side=True)
        here = client.wrap_bio(b_in, b_out, server_hostname=NAME)
        for _ in range(4):
            for side in (here, there):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                a_in.write(b_out.read())
                b_in.write(a_out.read())
        der = pair.certificate.public_bytes(serialization.Encoding.DER)
        return here.getpeercert(binary_form=True) == der


def pair(since: timedelta = timedelta(0)) -> Pair:
    return new_pair([NAME], datetime.now(UTC) - since)


@pytest.fixture
def served(tmp_path: Path) -> Served:
    found = Served(tmp_path)
    found.files.look()
    return found


def test_files_that_are_not_there_yet_are_waited_for(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.files.look()
    assert not served.files.loaded.is_set()
    first = pair()
    served.put(first)
    assert served.files.loaded.is_set()
    assert served.shows(first)
    assert served.metric("expiry_timestamp_seconds") == pytest.approx(
        first.certificate.not_valid_after_utc.timestamp()
    )
    assert served.metric("failures_total") == 0


def test_another_pair_is_served_from_the_next_connection_on(served: Served) -> None:
    for _ in range(3):
        another = pair()
        served.put(another)
        assert served.shows(another)


def spoilt(kind: str, good: Pair) -> tuple[bytes, bytes]:
    other = pair()
    if kind == "encrypted":
        key = serialization.load_pem_private_key(other.key_pem, None)
        wanted = serialization.BestAvailableEncryption(b"x")
        form = serialization.PrivateFormat.PKCS8
        return other.certificate_pem, key.private_bytes(  # type: ignore[union-attr]
            serialization.Encoding.PEM, form, wanted
        )
    expired = pair(LIFE + timedelta(days=1))
    return {
        "another's key": (other.certificate_pem, good.key_pem),
        "another's certificate": (good.certificate_pem, other.key_pem),
        "no certificate": (b"nonsense", other.key_pem),
        "no key": (other.certificate_pem, b"nonsense"),
        "empty": (b"", b""),
        "cut off": (other.certificate_pem[:300], other.key_pem),
        "expired": (expired.certificate_pem, expired.key_pem),
        "binary": (b"\x00\xff" * 100, b"\x00\xff" * 100),
        "endless": (other.certificate_pem * 3000, other.key_pem),
    }[kind]


KINDS = [
    "another's key",
    "another's certificate",
    "no certificate",
    "no key",
    "empty",
    "cut off",
    "expired",
    "binary",
    "endless",
    "encrypted",
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_pair_is_reported_once_and_what_was_served_stays(
    served: Served, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    good = pair()
    served.put(good)
    cert, key = spoilt(kind, good)
    served.cert.write_bytes(cert)
    served.key.write_bytes(key)
    for _ in range(3):
        served.files.look()
    assert served.shows(good)
    assert served.metric("failures_total") == 1
    reported = [one for one in caplog.records if "still served" in one.getMessage()]
    assert len(reported) == 1
    assert "PRIVATE" not in caplog.text
    assert key.decode("latin-1") not in caplog.text or not key
    better = pair()
    served.put(better)
    assert served.shows(better)


@pytest.mark.parametrize("kind", KINDS)
def test_at_the_start_a_bad_pair_is_as_none(served: Served, kind: str) -> None:
    cert, key = spoilt(kind, pair())
    served.cert.write_bytes(cert)
    served.key.write_bytes(key)
    served.files.look()
    assert not served.files.loaded.is_set()


def test_files_that_vanish_are_reported_and_what_was_served_stays(served: Served) -> None:
    good = pair()
    served.put(good)
    served.cert.unlink()
    served.files.look()
    assert served.shows(good)
    assert served.metric("failures_total") == 1


def test_old_protocols_are_not_spoken(served: Served) -> None:
    assert served.files.context.minimum_version == ssl.TLSVersion.TLSv1_2


async def test_files_are_looked_at_until_cancelled(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.admission.tls.LOOK_SECONDS", 0.001)
    task = asyncio.create_task(served.files.run())
    good = pair()
    served.cert.write_bytes(good.certificate_pem)
    served.key.write_bytes(good.key_pem)
    async with asyncio.timeout(10):
        await served.files.loaded.wait()
    task.cancel()
    assert served.shows(good)


async def test_only_clients_of_the_authority_are_answered(tmp_path: Path) -> None:
    ours, others = (ensure(str(tmp_path / name)) for name in ("ours", "others"))
    authority = tmp_path / "ca.crt"
    authority.write_bytes(ours.ca_pem)
    metrics = AdmissionMetrics(CollectorRegistry())
    files = TlsFiles(ours.server_cert, ours.server_key, metrics, client_ca=str(authority))
    files.look()

    async def answer(pki: Pki | None) -> bytes:
        context = ssl.create_default_context(cadata=ours.ca_pem.decode())
        if pki is not None:
            both = tmp_path / "client.pem"
            both.write_bytes(b"".join(pki.client("kube-apiserver")))
            context.load_cert_chain(both)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            return await reader.read()
        except OSError:
            return b""
        finally:
            writer.transport.abort()

    def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=files.context)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(30), server:
        assert await answer(ours) == b"hello"
        assert await answer(others) == b""
        assert await answer(None) == b""


@pytest.mark.parametrize("content", [b"", b"nothing", None])
def test_authorities_that_cannot_be_used_are_reported(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ClientAuthorityError, match=f"{path} holds no authorities in PEM: "):
        TlsFiles("c", "k", AdmissionMetrics(CollectorRegistry()), client_ca=str(path))
