"""Certificates are made once, kept, renewed in time, and refused when damaged."""

from __future__ import annotations

import ipaddress
import os
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from kapilite.credentials.pki import LEAF_LIFE, RENEW_BEFORE, Pki, PkiError, ensure

NOW = datetime.now(UTC)
FILES = ("ca.crt", "ca.key", "server.crt", "server.key")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def handshake(
    pki: Pki, folder: Path, client: tuple[bytes, bytes] | None, name: str = "localhost"
) -> ssl.SSLObject:
    """Both ends of a TLS connection in memory; the server's end is returned."""
    trusting = ssl.create_default_context(cadata=pki.ca_pem.decode())
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    if client:
        pair = folder / "client.pem"
        pair.write_bytes(b"".join(client))
        trusting.load_cert_chain(pair)
        pair.unlink()
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = pki.ssl_context().wrap_bio(up, down, server_side=True)
    peer = trusting.wrap_bio(down, up, server_hostname=name)
    for _ in range(4):
        for end in (peer, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return server


def test_a_second_start_reuses_everything(tmp_path: Path) -> None:
    first = ensure(str(tmp_path / "pki"))
    before = contents(tmp_path / "pki")
    assert set(before) == set(FILES)
    second = ensure(str(tmp_path / "pki"))
    assert contents(tmp_path / "pki") == before
    assert second.ca_pem == first.ca_pem == before["ca.crt"]


def test_keys_are_private_to_their_owner(tmp_path: Path) -> None:
    ensure(str(tmp_path / "pki"))
    assert stat.S_IMODE((tmp_path / "pki").stat().st_mode) == 0o700
    for name in ("ca.key", "server.key"):
        assert stat.S_IMODE((tmp_path / "pki" / name).stat().st_mode) == 0o600


def test_the_server_answers_for_all_its_names(tmp_path: Path) -> None:
    pki = ensure(str(tmp_path), ["box.example.com", "10.1.2.3"])
    for name in ("localhost", "127.0.0.1", "::1", "box.example.com", "10.1.2.3"):
        handshake(pki, tmp_path, None, name)
    handshake(pki, tmp_path, None, "kubernetes.default.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(pki, tmp_path, None, "elsewhere.example.com")


def test_a_new_name_gets_a_new_certificate_from_the_same_authority(tmp_path: Path) -> None:
    ensure(str(tmp_path), ["a.example.com"])
    before = contents(tmp_path)
    pki = ensure(str(tmp_path), ["a.example.com", "192.0.2.1"])
    after = contents(tmp_path)
    assert {name for name in FILES if after[name] != before[name]} == {"server.crt", "server.key"}
    held = certificate(tmp_path / "server.crt").extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert ipaddress.ip_address("192.0.2.1") in held.value.get_values_for_type(x509.IPAddress)
    handshake(pki, tmp_path, None, "192.0.2.1")


@pytest.mark.parametrize(
    ("left", "renewed"), [(timedelta(days=1), False), (-timedelta(days=1), True)]
)
def test_a_certificate_is_renewed_in_the_month_before_it_expires(
    tmp_path: Path, left: timedelta, renewed: bool
) -> None:
    ensure(str(tmp_path), now=NOW - LEAF_LIFE + RENEW_BEFORE + left)
    before = contents(tmp_path)
    ensure(str(tmp_path), now=NOW)
    after = contents(tmp_path)
    assert (after["server.crt"] != before["server.crt"]) is renewed
    assert after["ca.crt"] == before["ca.crt"]


def test_a_certificate_is_already_valid_for_a_slow_clock(tmp_path: Path) -> None:
    ensure(str(tmp_path), now=NOW)
    for name in ("ca.crt", "server.crt"):
        assert certificate(tmp_path / name).not_valid_before_utc < NOW - timedelta(hours=12)


def test_a_client_certificate_tells_user_and_groups(tmp_path: Path) -> None:
    pki = ensure(str(tmp_path))
    subject = handshake(pki, tmp_path, pki.client("alice", ["dev", "ops"])).getpeercert()
    assert subject is not None
    assert subject["subject"] == (
        (("commonName", "alice"),),
        (("organizationName", "dev"),),
        (("organizationName", "ops"),),
    )


def test_a_client_may_come_without_a_certificate_but_not_with_a_foreign_one(tmp_path: Path) -> None:
    pki = ensure(str(tmp_path / "ours"))
    assert not handshake(pki, tmp_path, None).getpeercert()
    foreign = ensure(str(tmp_path / "theirs")).client("alice")
    with pytest.raises(ssl.SSLError):
        handshake(pki, tmp_path, foreign)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def swap(path: Path) -> None:
    other = ensure(str(path.parent.parent / "other"))
    path.write_bytes((Path(other.directory) / path.name).read_bytes())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [cut, swap])
def test_a_damaged_file_is_one_clear_error_and_stays_as_it_is(
    tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = tmp_path / "pki"
    ensure(str(folder))
    damage(folder / name)
    before = contents(folder)
    with pytest.raises(PkiError, match=r"start again") as caught:
        ensure(str(folder))
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


def test_a_server_pair_of_another_authority_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    ensure(str(folder))
    for name in ("server.crt", "server.key"):
        swap(folder / name)
    with pytest.raises(PkiError, match="not issued by this authority"):
        ensure(str(folder))


@pytest.mark.parametrize("name", ["ca.key", "server.key"])
def test_a_missing_key_is_an_error(tmp_path: Path, name: str) -> None:
    ensure(str(tmp_path))
    (tmp_path / name).unlink()
    with pytest.raises(PkiError, match=f"{name} is missing"):
        ensure(str(tmp_path))


def test_an_expired_authority_is_an_error(tmp_path: Path) -> None:
    ensure(str(tmp_path), now=NOW - timedelta(days=4000))
    with pytest.raises(PkiError, match=r"ca\.crt expires"):
        ensure(str(tmp_path), now=NOW)


@pytest.mark.parametrize(
    "kept", [("ca.key",), ("ca.crt", "ca.key"), ("ca.crt", "ca.key", "server.key")]
)
def test_an_interrupted_first_run_is_finished_by_the_next(
    tmp_path: Path, kept: tuple[str, ...]
) -> None:
    ensure(str(tmp_path))
    for name in set(FILES) - set(kept):
        os.unlink(tmp_path / name)
    handshake(ensure(str(tmp_path)), tmp_path, None)


def test_an_interrupted_renewal_is_finished_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure(str(tmp_path), now=NOW - LEAF_LIFE)
    replace = os.replace

    def crash(source: str, target: str) -> None:
        if target.endswith("server.crt"):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        ensure(str(tmp_path))
    monkeypatch.undo()
    handshake(ensure(str(tmp_path)), tmp_path, None)
