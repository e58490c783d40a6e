"""A certificate's life, as clients and servers see it, with a clock of the test."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from hypothesis import given, settings
from hypothesis import strategies as st

from kubebasics import certificates
from laneway.core.certificates.rotation import (
    DROP,
    LIFE,
    RENEW_BEFORE,
    SETTLE,
    Decision,
    Seen,
    Step,
    decide,
    new_pair,
)
from laneway.core.certificates.secret import bundle, parsed, read
from support.examples import many

NAMES = ["laneway-webhook.harvester-system.svc"]
START = datetime(2026, 1, 1, tzinfo=UTC)
MOMENT = timedelta(seconds=1)


class Kept:
    """A Secret and two configurations, and the manager that keeps them."""

    def __init__(self) -> None:
        self.now = START
        self.data: dict[str, bytes] | None = None
        self.bundles = [b"", b""]
        self.steps: list[Step] = []
        self.stuck = False
        """Whether the last configuration refuses to be written."""
        self._seen: Seen | None = None

    def look(self) -> Decision:
        """Look once, and do what follows."""
        data = None if self.data is None else dict(self.data)
        seen = Seen(data, list(self.bundles), self.now)
        if self._seen and (self._seen.data, self._seen.bundles) == (seen.data, seen.bundles):
            seen = self._seen
        self._seen = seen
        decision = decide(seen, NAMES, self.now)
        if decision.change is not None:
            self.steps.append(decision.change.step)
            self.write(decision.change.data)
        else:
            last = self.bundles[-1]
            self.bundles = [decision.bundle for _ in self.bundles]
            if self.stuck:
                self.bundles[-1] = last
        return decision

    def write(self, data: Mapping[str, bytes | None]) -> None:
        merged = {**(self.data or {}), **data}
        self.data = {name: value for name, value in merged.items() if value is not None}

    def settle(self) -> Decision:
        """Look until nothing is to be done for now."""
        for _ in range(10):
            before = (dict(self.data or {}), list(self.bundles))
            decision = self.look()
            if (self.data, self.bundles) == before:
                return decision
        raise AssertionError("it goes on for ever")

    def wait(self, time: timedelta) -> None:
        self.now += time
        self.settle()

    def restart(self) -> None:
        """Another manager leads, who remembers nothing."""
        self._seen = None

    @property
    def served(self) -> bytes:
        assert self.data is not None
        return self.data["tls.crt"]

    def accepts(self, served: bytes) -> bool:
        """Whether every client accepts a certificate."""
        leaf = x509.load_pem_x509_certificates(served)[0]
        if not leaf.not_valid_before_utc <= self.now < leaf.not_valid_after_utc:
            return False
        return all(any(_issued(leaf, one) for one in parsed(pem, self.now)) for pem in self.bundles)


def _issued(leaf: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(by)
    except (ValueError, InvalidSignature):
        return False
    return True


@pytest.fixture
def kept() -> Kept:
    found = Kept()
    found.settle()
    return found


def test_the_first_is_served_at_once(kept: Kept) -> None:
    assert kept.steps == [Step.MADE]
    assert kept.accepts(kept.served)
    assert set(kept.data or {}) == {"tls.crt", "tls.key", "ca.crt"}


def test_what_is_made_is_a_server_certificate_of_these_names(kept: Kept) -> None:
    leaf = x509.load_pem_x509_certificates(kept.served)[0]
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == NAMES
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [certificates.SERVER]
    assert leaf.not_valid_after_utc - START == LIFE


def test_openssl_takes_the_pair_and_the_key_of_the_authority_is_gone(
    kept: Kept, tmp_path: object
) -> None:
    assert kept.data is not None
    keys = [value for value in kept.data.values() if b"PRIVATE KEY" in value]
    assert keys == [kept.data["tls.key"]]
    context = ssl.create_default_context(cadata=kept.data["ca.crt"].decode())
    assert len(context.get_ca_certs()) == 1


def test_nothing_is_done_before_it_is_time(kept: Kept) -> None:
    before = dict(kept.data or {})
    decision = kept.look()
    assert decision.change is None
    assert decision.look_again == START + LIFE - RENEW_BEFORE
    kept.wait(LIFE - RENEW_BEFORE - MOMENT)
    assert kept.data == before


def test_it_is_changed_in_three_steps_and_every_client_accepts_all_that_is_served(
    kept: Kept,
) -> None:
    first = kept.served
    kept.wait(LIFE - RENEW_BEFORE)
    assert kept.steps[1:] == [Step.PREPARED]
    assert kept.served == first
    assert kept.accepts(first)
    kept.wait(SETTLE - MOMENT)
    assert kept.served == first
    kept.wait(MOMENT)
    assert kept.steps[1:] == [Step.PREPARED, Step.REPLACED]
    assert kept.served != first
    # Servers that have not looked yet, and those that have.
    assert kept.accepts(first)
    assert kept.accepts(kept.served)
    kept.wait(DROP - MOMENT)
    assert kept.accepts(first)
    kept.wait(MOMENT)
    assert kept.steps[1:] == [Step.PREPARED, Step.REPLACED, Step.SETTLED]
    assert not kept.accepts(first)
    assert kept.accepts(kept.served)
    assert set(kept.data or {}) == {"tls.crt", "tls.key", "ca.crt"}


def test_it_is_not_served_before_every_client_trusts_it_and_had_time(kept: Kept) -> None:
    kept.wait(LIFE - RENEW_BEFORE)
    first, reported = kept.served, list(kept.bundles)
    kept.bundles[1] = b""
    kept.wait(SETTLE)
    assert kept.served == first
    assert kept.bundles == reported
    kept.wait(SETTLE - MOMENT)
    assert kept.served == first
    kept.wait(MOMENT)
    assert kept.served != first


def test_who_takes_over_waits_again_and_goes_on(kept: Kept) -> None:
    kept.wait(LIFE - RENEW_BEFORE)
    first = kept.served
    kept.now += SETTLE
    kept.restart()
    kept.settle()
    assert kept.served == first
    kept.wait(SETTLE)
    assert kept.served != first


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("spoilt", [b"", b"nonsense", b"\xff\xfe", None])
def test_a_damaged_pair_is_replaced_and_servers_that_hold_a_good_copy_stay_accepted(
    kept: Kept, name: str, spoilt: bytes | None
) -> None:
    held = kept.served
    kept.write({name: spoilt})
    kept.settle()
    assert kept.steps[1:] == [Step.PREPARED]
    assert kept.accepts(held)
    kept.wait(SETTLE)
    assert kept.served != held
    assert kept.accepts(held)
    assert kept.accepts(kept.served)


@pytest.mark.parametrize(
    ("left", "why"),
    [
        ((), ""),
        (("tls.crt",), "tls.key holds no key"),
        (("tls.key",), "tls.crt holds no certificate"),
    ],
)
def test_half_a_pair_is_told_and_none_is_nothing_to_tell(
    kept: Kept, left: tuple[str, ...], why: str
) -> None:
    data = {name: (kept.data or {})[name] for name in left}
    assert str(read(data, NAMES, kept.now).current) == why


def test_a_deleted_secret_is_made_again_without_a_gap(kept: Kept) -> None:
    held = kept.served
    kept.data = None
    kept.settle()
    assert kept.accepts(held)
    kept.wait(SETTLE)
    assert kept.accepts(held)
    assert kept.accepts(kept.served)


def test_a_damaged_list_of_authorities_is_mended_from_what_clients_trust(kept: Kept) -> None:
    held = kept.served
    kept.write({"ca.crt": b"nonsense"})
    kept.settle()
    assert kept.served == held
    assert kept.accepts(held)
    assert (kept.data or {})["ca.crt"] == kept.bundles[0]


def test_a_damaged_next_pair_is_made_again(kept: Kept) -> None:
    kept.wait(LIFE - RENEW_BEFORE)
    held = kept.served
    kept.write({"next.key": b"nonsense"})
    kept.settle()
    kept.wait(SETTLE)
    assert kept.served != held
    assert kept.accepts(kept.served)


def test_what_clients_refuse_anyway_is_replaced_at_once(kept: Kept) -> None:
    kept.now += LIFE + MOMENT
    kept.settle()
    assert kept.steps[1:] == [Step.MADE]
    assert kept.accepts(kept.served)


@pytest.mark.parametrize("years", [1, 40])
def test_a_clock_that_is_behind_for_a_moment_takes_nothing_away(kept: Kept, years: int) -> None:
    held, behind = kept.served, timedelta(days=365) * years
    kept.now -= behind
    kept.settle()
    assert kept.served == held
    kept.now += behind
    kept.settle()
    assert kept.served == held
    assert kept.accepts(held)
    kept.wait(DROP)
    assert kept.served == held
    assert kept.accepts(held)


def test_a_clock_that_was_ahead_leaves_nothing_that_clients_refuse_for_long(kept: Kept) -> None:
    ahead = timedelta(days=365)
    kept.wait(ahead)
    kept.now -= ahead
    kept.settle()
    assert not kept.accepts(kept.served)
    kept.wait(SETTLE)
    assert kept.accepts(kept.served)


def test_a_pair_for_another_name_is_replaced_at_once(kept: Kept) -> None:
    other = new_pair(["laneway-webhook.elsewhere.svc"], kept.now)
    kept.data = {
        "tls.crt": other.certificate_pem,
        "tls.key": other.key_pem,
        "ca.crt": bundle([other.authority]),
    }
    kept.settle()
    assert kept.steps[-1] == Step.MADE
    assert kept.accepts(kept.served)


def test_a_pair_from_another_issuer_stays_until_it_is_time(kept: Kept) -> None:
    """As cert-manager leaves it: another formatting, and another life."""
    other = new_pair(NAMES, kept.now - timedelta(days=10))
    kept.data = {
        "tls.crt": other.certificate_pem,
        "tls.key": other.key_pem,
        "ca.crt": bundle([other.authority]) + b"\n",
    }
    kept.bundles = [bundle([other.authority]) + b"\n", b""]
    kept.settle()
    assert kept.served == other.certificate_pem
    assert kept.accepts(kept.served)


def test_a_leaf_of_an_unknown_issuer_is_replaced_in_steps(kept: Kept) -> None:
    held = kept.served
    stranger = new_pair(NAMES, kept.now)
    kept.write({"tls.crt": stranger.certificate_pem, "tls.key": stranger.key_pem})
    kept.settle()
    assert kept.accepts(held)
    kept.wait(SETTLE)
    assert kept.accepts(kept.served)


def test_nothing_is_served_that_a_client_does_not_trust(kept: Kept) -> None:
    held = kept.served
    kept.stuck = True
    kept.wait(LIFE - RENEW_BEFORE)
    for _ in range(3):
        kept.wait(SETTLE)
    assert kept.served == held
    assert kept.accepts(held)
    kept.stuck = False
    kept.wait(SETTLE)
    kept.wait(SETTLE)
    assert kept.served != held
    assert kept.accepts(kept.served)


def test_no_authority_is_dropped_before_every_client_trusts_the_next(kept: Kept) -> None:
    kept.wait(LIFE - RENEW_BEFORE)
    kept.wait(SETTLE)
    both = kept.bundles[0]
    kept.bundles[-1], kept.stuck = b"", True
    kept.settle()
    kept.wait(2 * DROP)
    assert kept.bundles[0] == both
    assert Step.SETTLED not in kept.steps
    kept.stuck = False
    kept.settle()
    kept.wait(DROP)
    assert kept.steps[-1] == Step.SETTLED
    assert kept.accepts(kept.served)


def test_words_tell_what_was_wrong_and_no_key(kept: Kept) -> None:
    kept.write({"tls.key": b"nonsense"})
    decision = kept.look()
    assert decision.change is not None
    assert "tls.key holds no key" in decision.change.words
    assert b"PRIVATE" not in repr(decision).encode()
    assert "PRIVATE" not in decision.change.words


EVENTS = st.one_of(
    st.timedeltas(timedelta(0), timedelta(days=20)),
    st.sampled_from(["restart", "wiped", "half wiped", "look"]),
)


@given(st.lists(EVENTS, max_size=12))
@settings(max_examples=many(60))
def test_whatever_happens_clients_accept_what_servers_may_serve(events: list[object]) -> None:
    """A server may hold what the Secret held half an hour ago; managers look when it is time."""
    kept = Kept()
    kept.settle()
    held: list[tuple[datetime, bytes]] = [(kept.now, kept.served)]
    for event in events:
        match event:
            case timedelta():
                end = kept.now + event
                while kept.now < end:
                    again = kept.settle().look_again
                    kept.now = min(end, max(again, kept.now + MOMENT))
                    kept.settle()
                    held.append((kept.now, kept.served))
            case "restart":
                kept.restart()
            case "wiped":
                kept.bundles = [b"", b""]
            case "half wiped":
                kept.bundles[0] = b""
        kept.settle()
        held.append((kept.now, kept.served))
        recent = [
            served
            for place, (at, served) in enumerate(held)
            if at >= kept.now - timedelta(minutes=30) or place == len(held) - 1
        ]
        assert all(kept.accepts(served) for served in recent)
