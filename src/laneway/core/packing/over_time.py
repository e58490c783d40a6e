"""Requests for vGPUs that come, wait, stay and go, on GPUs that may be in different modes.

Requests are independent of each other, come at random and stay for random times, both exponential.
One that finds no room waits for a bounded time, and whenever a vGPU goes, those that wait are
tried again, the oldest first; a small one may pass a large one, as with the scheduler of
Kubernetes. Nothing moves. The same seed gives the same requests to every policy. Times are in mean
life times.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from laneway.core.packing.policy import Choice, Policy, Score, choose
from laneway.core.packing.room import Board, Room, filled, without

Decide = Callable[[Sequence[Room], int], Choice | None]
"""Where a vGPU of a size goes among GPUs."""


class Requests(msgspec.Struct, frozen=True):
    """What comes."""

    weights: tuple[float, ...]
    """How often each size of the board is requested, in proportion."""
    pace: float
    """How many come in one mean life time."""
    patience: float = 0.0
    """How long one waits at the most; 0: it is refused at once."""


class Counted(msgspec.Struct):
    """What became of the requests for one size."""

    asked: int = 0
    served: int = 0
    waited: int = 0
    """Of those served, how many had to wait."""
    waiting: float = 0.0
    """How long those waited in all."""


class Result(msgspec.Struct, frozen=True):
    """What became of all."""

    sizes: tuple[Counted, ...]
    used: float
    """GiB in use on average."""


class _Request(NamedTuple):
    since: float
    life: float
    counted: bool


def over_time(
    boards: Sequence[Board],
    requests: Requests,
    decide: Decide,
    *,
    seed: int,
    arrivals: int,
    before: int,
) -> Result:
    """So many requests, after so many that only bring the GPUs into their usual state.

    `boards`: of each GPU, with the same sizes.
    """
    luck = random.Random(seed)  # noqa: S311 - a simulation
    sizes = range(len(requests.weights))
    gpus = _Gpus(boards, decide, requests)
    for number in range(before + arrivals):
        then = gpus.now + luck.expovariate(requests.pace)
        size = luck.choices(sizes, requests.weights)[0]
        life = luck.expovariate(1)
        gpus.until(then)
        if number == before:
            gpus.begin()
        gpus.take(size, _Request(then, life, number >= before))
    used = gpus.used()
    gpus.finish()
    return Result(tuple(gpus.counts), used)


def deciding(boards: Sequence[Board], functions: Sequence[int], policy: Policy) -> Decide:
    """A policy among GPUs that carry so many vGPUs at the most; 0: not limited."""

    def decide(rooms: Sequence[Room], size: int) -> Choice | None:
        best: tuple[Score, Choice] | None = None
        for gpu, room in enumerate(rooms):
            if functions[gpu] and room.number >= functions[gpu]:
                continue
            found = _on_one(boards[gpu], room, size, policy)
            if found is not None and (best is None or found[0] < best[0]):
                best = found[0], found[1]._replace(gpu=gpu)
        return best[1] if best else None

    return decide


@lru_cache(maxsize=1 << 17)
def _on_one(board: Board, room: Room, size: int, policy: Policy) -> tuple[Score, Choice] | None:
    """Where on a GPU, and how good that is; the driver takes the lowest place."""
    choice = choose(board, [room], size, policy, lowest=True)
    return None if choice is None else (policy(board, room, choice.after), choice)


class _Gpus:
    """GPUs, who waits for them, and the clock."""

    def __init__(self, boards: Sequence[Board], decide: Decide, requests: Requests) -> None:
        self.now = 0.0
        self.counts = [Counted() for _ in requests.weights]
        self._boards = boards
        self._decide = decide
        self._patience = requests.patience
        self._rooms = [Room()] * len(boards)
        self._ends: list[tuple[float, int, int, int | None]] = []
        self._lines: list[deque[_Request]] = [deque() for _ in requests.weights]
        self._in_use = self._busy = self._began = 0.0

    def begin(self) -> None:
        """Measure from now on."""
        self._busy, self._began = 0.0, self.now

    def used(self) -> float:
        passed = self.now - self._began
        return self._busy / passed if passed else 0.0

    def until(self, then: float) -> None:
        """Let those go whose time is over by then."""
        while self._ends and self._ends[0][0] <= then:
            self._next_goes()
        self._pass(then)

    def finish(self) -> None:
        """Nothing comes any more; those that wait are served or give up."""
        while self._ends and any(self._lines):
            self._next_goes()

    def take(self, size: int, request: _Request) -> None:
        """A request comes."""
        self.counts[size].asked += request.counted
        if not self._start(size, request) and self._patience:
            self._lines[size].append(request)

    def _pass(self, then: float) -> None:
        self._busy += (then - self.now) * self._in_use
        self.now = then

    def _next_goes(self) -> None:
        at, gpu, size, start = heapq.heappop(self._ends)
        self._pass(at)
        self._set(gpu, without(self._boards[gpu], self._rooms[gpu], size, start))
        self._serve_waiting()

    def _serve_waiting(self) -> None:
        for line in self._lines:
            while line and line[0].since + self._patience < self.now:
                line.popleft()
        # Room only shrinks from here on: of a size that has none now, no other request is tried.
        rest = {size for size, line in enumerate(self._lines) if line}
        while rest:
            size = min(rest, key=lambda one: self._lines[one][0].since)
            line = self._lines[size]
            if self._start(size, line[0]):
                line.popleft()
            else:
                rest.discard(size)
            if not line:
                rest.discard(size)

    def _start(self, size: int, request: _Request) -> bool:
        choice = self._decide(self._rooms, size)
        if choice is None:
            return False
        self._set(choice.gpu, choice.after)
        heapq.heappush(self._ends, (self.now + request.life, choice.gpu, size, choice.start))
        if request.counted:
            counted, waited = self.counts[size], self.now - request.since
            counted.served += 1
            counted.waited += waited > 0
            counted.waiting += waited
        return True

    def _set(self, gpu: int, room: Room) -> None:
        board = self._boards[gpu]
        self._in_use += filled(board, room) - filled(board, self._rooms[gpu])
        self._rooms[gpu] = room
