"""What a policy serves of a mix of requests: once until the GPUs are full, and over time.

Requests are independent of each other, come at random and stay for random times; one that finds no
room is refused and does not come again. Nothing moves. The same seed gives the same requests to
every policy, so that results can be compared, and the same result each time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence

import msgspec

from laneway.core.packing.policy import Choice, Policy, choose
from laneway.core.packing.room import Board, Room, filled, gib, without

Decide = Callable[[Sequence[Room], int], Choice | None]
"""Where a vGPU of a size goes among GPUs."""


class Mix(msgspec.Struct, frozen=True):
    """Which sizes are requested, and how much."""

    weights: tuple[float, ...]
    """How often each size of the board is requested, in proportion."""
    gpus: int = 8
    load: float = 0.8
    """GiB requested at a time on average, as a share of all there is."""


class Served(msgspec.Struct, frozen=True):
    """What became of requests, each as a share of one."""

    memory: float
    """Of the GiB requested, what was given."""
    requests: float
    large: float
    """Of requests for at least half a GPU, those served; 1 where there are none."""
    used: float
    """Of all GiB, what is in use on average over time."""


def by_policy(board: Board, policy: Policy, *, lowest: bool) -> Decide:
    """A policy as it decides about one request."""
    return lambda rooms, size: choose(board, rooms, size, policy, lowest=lowest)


def fill(board: Board, mix: Mix, decide: Decide, *, seed: int) -> float:
    """The share in use when as much was requested as there is, and nothing ever left."""
    luck = random.Random(seed)  # noqa: S311 - a simulation
    rooms = [Room()] * mix.gpus
    capacity = board.region * mix.gpus
    requested = 0.0
    while requested < capacity:
        size = _drawn(luck, mix)
        requested += gib(board.kinds[size])
        if (choice := decide(rooms, size)) is not None:
            rooms[choice.gpu] = choice.after
    return sum(filled(board, room) for room in rooms) / capacity


def churn(
    board: Board, mix: Mix, decide: Decide, *, seed: int, arrivals: int = 5000, before: int = 1000
) -> Served:
    """So many requests over time, after so many that only bring it into its usual state."""
    luck = random.Random(seed)  # noqa: S311 - a simulation
    sizes = [gib(kind) for kind in board.kinds]
    mean = sum(map(float.__mul__, map(float, mix.weights), sizes)) / sum(mix.weights)
    pace = mix.load * board.region * mix.gpus / mean
    rooms = [Room()] * mix.gpus
    ends: list[tuple[float, int, int, int | None]] = []
    tally = _Tally(sizes, board.region)
    now, busy, began = 0.0, 0.0, 0.0
    for number in range(before + arrivals):
        then = now + luck.expovariate(pace)
        size, life = _drawn(luck, mix), luck.expovariate(1)
        counted = number > before
        while ends and ends[0][0] <= then:
            at, gpu, gone, start = heapq.heappop(ends)
            busy += (at - now) * _in_use(board, rooms) if counted else 0
            now = at
            rooms[gpu] = without(board, rooms[gpu], gone, start)
        busy += (then - now) * _in_use(board, rooms) if counted else 0
        now = then
        began = now if number == before else began
        choice = decide(rooms, size)
        if number >= before:
            tally.count(size, served=choice is not None)
        if choice is not None:
            rooms[choice.gpu] = choice.after
            heapq.heappush(ends, (now + life, choice.gpu, size, choice.start))
    capacity = board.region * mix.gpus * (now - began)
    return tally.served(busy / capacity if capacity else 0.0)


def _drawn(luck: random.Random, mix: Mix) -> int:
    return luck.choices(range(len(mix.weights)), mix.weights)[0]


def _in_use(board: Board, rooms: Sequence[Room]) -> float:
    return sum(filled(board, room) for room in rooms)


class _Tally:
    """Requests by size, and those of them that were served."""

    def __init__(self, sizes: Sequence[float], region: int) -> None:
        self._sizes = sizes
        self._large = [2 * size >= region for size in sizes]
        self._asked = [0] * len(sizes)
        self._had = [0] * len(sizes)

    def count(self, size: int, *, served: bool) -> None:
        self._asked[size] += 1
        self._had[size] += served

    def served(self, used: float) -> Served:
        def share(worth: Sequence[float]) -> float:
            asked = sum(map(float.__mul__, map(float, self._asked), map(float, worth)))
            had = sum(map(float.__mul__, map(float, self._had), map(float, worth)))
            return had / asked if asked else 1.0

        ones = [1.0] * len(self._sizes)
        return Served(share(self._sizes), share(ones), share(self._large), used)
