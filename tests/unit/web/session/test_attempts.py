"""Attempts are limited by peer and in all, and a flood of peers fills no memory."""

from __future__ import annotations

from laneway.web.session.attempts import Attempts, Rate


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_peer_has_some_attempts_and_then_one_now_and_then() -> None:
    clock = Clock()
    attempts = Attempts(Rate(3, 10.0), Rate(100, 1.0), clock)
    assert [attempts.wait("192.0.2.1") for _ in range(4)] == [0, 0, 0, 10]
    assert attempts.wait("192.0.2.2") == 0
    clock.now += 4
    assert attempts.wait("192.0.2.1") == 6
    clock.now += 6
    assert attempts.wait("192.0.2.1") == 0
    assert attempts.wait("192.0.2.1") > 0
    clock.now += 1000
    assert [attempts.wait("192.0.2.1") for _ in range(4)] == [0, 0, 0, 10]


def test_all_together_are_limited_and_a_refused_peer_takes_nothing_from_others() -> None:
    clock = Clock()
    attempts = Attempts(Rate(2, 60.0), Rate(4, 1.0), clock)
    assert [attempts.wait("192.0.2.1") for _ in range(9)][:3] == [0, 0, 60]
    assert [attempts.wait(f"192.0.2.{peer}") for peer in (2, 3, 4)] == [0, 0, 1]


def test_a_network_of_ipv6_is_one_peer() -> None:
    attempts = Attempts(Rate(1, 60.0), clock=Clock())
    assert attempts.wait("2001:db8::1") == 0
    assert attempts.wait("2001:db8::ffff:2") == 60
    assert attempts.wait("2001:db8:0:1::1") == 0
    assert attempts.wait("::ffff:192.0.2.1") == 0
    assert attempts.wait("192.0.2.1") == 60


def test_peers_are_forgotten() -> None:
    attempts = Attempts(of_all=Rate(10**6, 0.001), clock=Clock())
    for peer in range(10_000):
        attempts.wait(f"10.{peer >> 8}.0.{peer & 255}")
    assert len(attempts._peers) <= 4096
