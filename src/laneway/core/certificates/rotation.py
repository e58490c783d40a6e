"""Decides how the certificate of a server changes without a request that fails for it.

A certificate comes with an authority of its own, whose key is forgotten as soon as it has signed:
there is nothing that could sign for an intruder, and one way of changing both, which is gone every
time and so is known to work. It has three steps, and waits after each:

1. The next pair is made and stored with the current one. Clients are made to trust both authorities
   (`ca.crt`, and the bundle of their configurations).
2. Once clients have known that for `SETTLE`, the next pair takes the place of the current one.
   Servers find it in their files, each in its own time.
3. Once they have had `DROP` for that, the old authority goes.

The Secret alone says what was made, so the next leader needs to remember nothing; how long it
has been so is counted again by each, and waiting longer does no harm. A pair that is damaged or
lost is replaced in the same steps, because servers may still hold a good copy of it; only where
clients refuse what there is, or trust no authority, is there nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from kubebasics import certificates
from laneway.core.certificates.secret import (
    AUTHORITIES,
    CERTIFICATE,
    KEY,
    NEXT_CERTIFICATE,
    NEXT_KEY,
    Authorities,
    Held,
    Pair,
    UnusableError,
    bundle,
    parsed,
    read,
)

LIFE = timedelta(days=90)
RENEW_BEFORE = timedelta(days=30)
SETTLE = timedelta(minutes=5)
"""An API server that watches knows of a change in a second; a slow one is given plenty."""
DROP = timedelta(hours=1)
"""A kubelet brings a Secret's change into pods within two minutes."""


class Step(StrEnum):
    """What is done to the Secret."""

    MADE = "CertificateCreated"
    PREPARED = "CertificatePrepared"
    REPLACED = "CertificateReplaced"
    SETTLED = "OldCARemoved"


@dataclass(frozen=True)
class Seen:
    """What there is."""

    data: Mapping[str, bytes] | None = field(repr=False)
    """Of the Secret; None where there is none."""
    bundles: Sequence[bytes]
    """Whom clients trust: one bundle for each of their configurations."""
    since: datetime
    """When it was first seen to be so."""


@dataclass(frozen=True)
class Change:
    """What is to be written to the Secret."""

    step: Step
    data: Mapping[str, bytes | None] = field(repr=False)
    """None for what is to go."""
    words: str


@dataclass(frozen=True)
class Decision:
    """What to do now: the change, or where there is none, whom clients are to trust."""

    change: Change | None
    bundle: bytes
    look_again: datetime
    """If nothing changes before."""


def decide(seen: Seen, names: Sequence[str], now: datetime) -> Decision:
    """What follows from what there is, for a server of these names. Draws keys where it must."""
    trusted = tuple(dict.fromkeys(one for pem in seen.bundles for one in parsed(pem, now)))
    held = read(seen.data or {}, names, now, trusted)
    wanted = bundle(held.authorities)
    change, look_again = _change(seen, held, trusted, names, now)
    if change is None and any(one != wanted for one in seen.bundles):
        # Time counts from when all configurations have it.
        return Decision(None, wanted, now + SETTLE)
    return Decision(change, wanted, look_again)


def _change(
    seen: Seen, held: Held, trusted: Authorities, names: Sequence[str], now: datetime
) -> tuple[Change | None, datetime]:
    reported = all(one == bundle(held.authorities) for one in seen.bundles)
    current = held.current
    if held.next is not None:
        due = seen.since + SETTLE
        refused = isinstance(current, UnusableError) and current.refused
        if refused or (reported and now >= due):
            return _replaced(held.next), now
        return None, due
    if isinstance(current, UnusableError):
        known = tuple(dict.fromkeys((*held.authorities, *trusted)))
        return _made(current, known, names, now), now
    due = current.certificate.not_valid_after_utc - RENEW_BEFORE
    if now >= due:
        words = f"expires at {current.certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        return _prepared(held.authorities, names, now, f"The certificate {words}"), now
    if held.authorities != (current.authority,):
        drop = seen.since + DROP
        if reported and now >= drop:
            return _dropped(current), now
        return None, min(drop, due)
    if seen.data is not None and seen.data.get(AUTHORITIES) != bundle(held.authorities):
        return _dropped(current), now
    return None, due


def _made(
    current: UnusableError, known: Authorities, names: Sequence[str], now: datetime
) -> Change:
    """Another pair in the place of one that cannot be used."""
    why = (
        f"The certificate cannot be used: {current}"
        if str(current)
        else "No certificate exists yet"
    )
    if known and not current.refused:
        return _prepared(known, names, now, why)
    pair = new_pair(names, now)
    data = {
        CERTIFICATE: pair.certificate_pem,
        KEY: pair.key_pem,
        AUTHORITIES: bundle([pair.authority]),
        NEXT_CERTIFICATE: None,
        NEXT_KEY: None,
    }
    return Change(Step.MADE, data, f"{why}. A certificate {_until(pair)} was created.")


def _prepared(known: Authorities, names: Sequence[str], now: datetime, why: str) -> Change:
    pair = new_pair(names, now)
    data = {
        NEXT_CERTIFICATE: pair.certificate_pem,
        NEXT_KEY: pair.key_pem,
        AUTHORITIES: bundle([*known, pair.authority]),
    }
    words = (
        f"{why}. The next one, {_until(pair)}, was created; it is served once every client trusts "
        "its authority."
    )
    return Change(Step.PREPARED, data, words)


def _replaced(pair: Pair) -> Change:
    data = {
        CERTIFICATE: pair.certificate_pem,
        KEY: pair.key_pem,
        NEXT_CERTIFICATE: None,
        NEXT_KEY: None,
    }
    return Change(Step.REPLACED, data, f"The certificate {_until(pair)} is served from now on.")


def _dropped(pair: Pair) -> Change:
    data = {AUTHORITIES: bundle([pair.authority])}
    return Change(Step.SETTLED, data, "Only the authority of the certificate is trusted now.")


def new_pair(names: Sequence[str], now: datetime) -> Pair:
    """A pair with an authority of its own."""
    ca_key, key = certificates.new_key(), certificates.new_key()
    # Named apart: clients look for whom to trust by name first.
    ca_name = certificates.subject(f"laneway-webhook-ca {now:%Y-%m-%dT%H:%M:%SZ}")
    authority = certificates.authority(ca_name, ca_key, now, LIFE)
    certificate = certificates.issued(
        authority,
        ca_key,
        certificates.subject(names[0][:64]),
        key,
        usage=certificates.SERVER,
        names=names,
        now=now,
        life=LIFE,
    )
    return Pair(certificate, certificates.pem(certificate), certificates.key_pem(key), authority)


def _until(pair: Pair) -> str:
    return f"good until {pair.certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
