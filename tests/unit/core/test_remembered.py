"""Results that are kept as long as they are asked of the same object."""

from __future__ import annotations

from laneway.core.remembered import remembered


def test_the_same_object_is_worked_on_once_and_an_equal_one_again() -> None:
    asked: list[tuple[int, ...]] = []

    @remembered
    def total(numbers: tuple[int, ...]) -> int:
        asked.append(numbers)
        return sum(numbers)

    first, alike = tuple(map(int, "12")), tuple(map(int, "12"))
    assert [total(first), total(first), total(alike), total(first)] == [3, 3, 3, 3]
    assert [id(one) for one in asked] == [id(first), id(alike), id(first)]
