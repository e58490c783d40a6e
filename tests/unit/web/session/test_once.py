"""A code lets its user in once, and not for long."""

from __future__ import annotations

from laneway.web.session.once import OnceCodes


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_code_works_once_and_in_time() -> None:
    clock = Clock()
    codes = OnceCodes(clock)
    code = codes.issue("token-1", seconds=10)
    assert codes.take("other") is None
    assert codes.take(code) == "token-1"
    assert codes.take(code) is None
    late = codes.issue("token-1", seconds=10)
    clock.now += 10
    assert codes.take(late) is None


def test_codes_are_bounded_and_show_no_token() -> None:
    codes = OnceCodes()
    issued = [codes.issue("token-1") for _ in range(20)]
    assert codes.take(issued[0]) is None
    assert codes.take(issued[-1]) == "token-1"
    assert "token-1" not in repr(codes._held)
