"""What a policy serves of a mix of requests: once until the GPUs are full, and over time.

A request that finds no room is refused and does not come again. The same seed gives the same
requests to every policy, so that results can be compared, and the same result each time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from laneway.core.packing.over_time import Decide, Requests, over_time
from laneway.core.packing.policy import Policy, choose
from laneway.core.packing.room import Board, Room, filled, gib


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
    sizes = [gib(kind) for kind in board.kinds]
    mean = sum(map(float.__mul__, map(float, mix.weights), sizes)) / sum(mix.weights)
    requests = Requests(mix.weights, mix.load * board.region * mix.gpus / mean)
    boards = [board] * mix.gpus
    found = over_time(boards, requests, decide, seed=seed, arrivals=arrivals, before=before)

    def share(worth: Sequence[float]) -> float:
        pairs = list(zip(found.sizes, worth, strict=True))
        asked = sum(one.asked * value for one, value in pairs)
        return sum(one.served * value for one, value in pairs) / asked if asked else 1.0

    return Served(
        share(sizes),
        share([1.0] * len(sizes)),
        share([float(2 * size >= board.region) for size in sizes]),
        found.used / (board.region * mix.gpus),
    )


def _drawn(luck: random.Random, mix: Mix) -> int:
    return luck.choices(range(len(mix.weights)), mix.weights)[0]
