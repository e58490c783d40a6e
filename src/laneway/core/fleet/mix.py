"""What becomes of a mix of requests over time on the GPUs of a fleet, by mode and by policy.

GPUs begin empty. Each request is for one vGPU. GPUs in MIG mode, claimed ones and those of closed
nodes take none. Kinds of GPUs that offer different profiles are simulated one by one; a profile
that several offer is requested of each in proportion to its GPUs. The same seeds give the same
requests to every mode and policy, and the same answer each time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from laneway.core.fleet import board
from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.fleet.movable import takes_vgpus
from laneway.core.gpu.modes import Mode
from laneway.core.packing.over_time import Requests, deciding, over_time
from laneway.core.packing.policy import Policy, aware, breadth, depth
from laneway.core.packing.room import Board, board_of, gib
from laneway.core.vgpu.card import Card, card_of

OWN = "least room lost"
"""The policy by which Laneway decides."""
POLICIES: Mapping[str, Policy] = {"emptiest GPU": breadth, "fullest GPU": depth, OWN: aware}
MOST_GPUS = 64
"""Of one kind, that are simulated; of more, an even choice of so many."""
_LIVES = 10
"""Mean life times that are counted at the least."""
_BEFORE = 5
"""Mean life times after which GPUs are in their usual state."""


class MixError(ValueError):
    """The mix cannot be simulated; says why."""


class Asked(msgspec.Struct, frozen=True):
    """The question."""

    shares: Mapping[str, int]
    """How often each profile is requested, in proportion."""
    load: float
    """GiB requested at a time on average, as a share of what the GPUs have."""
    patience: float
    """How long a request waits at the most, in mean life times."""
    seeds: int
    requests: int = 5000
    """How many are counted at the least, of each kind of GPU and seed."""


class Share(msgspec.Struct, frozen=True):
    """Of the requests for some profiles."""

    profiles: tuple[str, ...]
    """Those of one size are one: they take the same room."""
    requested: float
    """Their share of all requests."""
    served: float
    waited: float
    """Of all, those that were served after they had waited."""
    wait: float
    """How long these waited on average, in mean life times."""


class Line(msgspec.Struct, frozen=True):
    """What a policy serves where GPUs have some mode."""

    mode: str
    """A mode that all GPUs have; empty: the modes that they have today."""
    policy: str
    all: Share
    memory: float
    """Of the GiB requested, what was served."""
    by_seed: tuple[float, ...]
    """The same, by seed."""
    used: float
    """Of the GiB of the GPUs, what is in use on average."""
    profiles: tuple[Share, ...]


class Simulated(msgspec.Struct, frozen=True):
    """The answer."""

    gpus: int
    simulated: int
    gib: int
    today: str
    """The mode of all GPUs; empty: they differ."""
    lines: tuple[Line, ...]
    nowhere: tuple[str, ...]
    """Profiles that no GPU can give, which are left out."""


_Names = tuple[str, ...]


class _Totals(NamedTuple):
    asked: float = 0.0
    served: float = 0.0
    waited: float = 0.0
    waiting: float = 0.0
    gib_asked: float = 0.0
    gib_served: float = 0.0


class _Kind(msgspec.Struct, frozen=True):
    """GPUs that offer the same of the wanted profiles."""

    gpus: tuple[Gpu, ...]
    chosen: tuple[Gpu, ...]
    boards: Mapping[bool, Board]
    """By whether sizes are mixed; both have the same sizes."""
    weights: tuple[float, ...]
    profiles: tuple[_Names, ...]
    """Of each size, those wanted."""

    def mean(self) -> float:
        """GiB requested, summed over the weights."""
        pairs = zip(self.weights, self.boards[False].kinds, strict=True)
        return sum(weight * gib(kind) for weight, kind in pairs)


def seen(fleet: Fleet) -> dict[str, int]:
    """The vGPUs that the VMs and pods of a fleet request, by profile."""
    names = board.by_resource(fleet)
    found: Counter[str] = Counter()
    for vm in fleet.vms:
        for resource, count in vm.requests.items():
            if resource in names:
                found[names[resource]] += count
    return dict(found)


def simulate(fleet: Fleet, asked: Asked) -> Simulated:
    """Every mode and policy. Raises MixError."""
    kinds, nowhere = _kinds(fleet, asked.shares)
    if not kinds:
        raise MixError("no GPU of the fleet that shares by time offers any of these profiles")
    gpus = [gpu for kind in kinds for gpu in kind.gpus]
    today = {_mode(gpu) for gpu in gpus}
    mixes = any(board.can_mix(board.card(kind.gpus[0])) for kind in kinds)
    others = (Mode.SAME_SIZE, Mode.MIXED_SIZE) if mixes else (Mode.SAME_SIZE,)
    modes: list[Mode | None] = [None, *(mode for mode in others if today != {mode})]
    return Simulated(
        gpus=len(gpus),
        simulated=sum(len(kind.chosen) for kind in kinds),
        gib=sum(_capacity(kind) for kind in kinds),
        today=today.pop() if len(today) == 1 else "",
        lines=tuple(_line(kinds, asked, mode, policy) for mode in modes for policy in POLICIES),
        nowhere=nowhere,
    )


def _mode(gpu: Gpu) -> Mode:
    return Mode.MIXED_SIZE if board.is_mixed(gpu) else Mode.SAME_SIZE


def _capacity(kind: _Kind) -> int:
    return kind.boards[False].region * len(kind.gpus)


def _kinds(fleet: Fleet, shares: Mapping[str, int]) -> tuple[list[_Kind], tuple[str, ...]]:
    alike: dict[tuple[str, frozenset[str]], list[Gpu]] = defaultdict(list)
    for gpu, takes in zip(fleet.gpus, takes_vgpus(fleet), strict=True):
        offered = frozenset(shares).intersection(board.card(gpu).kinds)
        if takes and offered:
            alike[gpu.device, offered].append(gpu)
    number: Counter[str] = Counter()
    for (_, offered), gpus in alike.items():
        number.update(dict.fromkeys(offered, len(gpus)))
    found = [
        _kind(gpus, card_of(device, {name for gpu in gpus for name in gpu.profiles}), weights)
        for (device, offered), gpus in alike.items()
        if (weights := {one: shares[one] * len(gpus) / number[one] for one in sorted(offered)})
    ]
    return found, tuple(name for name in shares if name not in number)


def _kind(gpus: Sequence[Gpu], card: Card, weights: Mapping[str, float]) -> _Kind:
    boards = {mixed: board_of(card, mixed=mixed) for mixed in (False, True)}
    if not board.can_mix(card):
        boards[True] = boards[False]
    by_mode = sorted(gpus, key=_mode)
    count = min(len(gpus), MOST_GPUS)
    chosen = tuple(by_mode[at * len(gpus) // count] for at in range(count))
    names: dict[int, list[str]] = defaultdict(list)
    for name in weights:
        names[card.kinds[name].framebuffer_mib].append(name)
    sizes = [names[kind.framebuffer_mib] for kind in boards[False].kinds]
    return _Kind(
        tuple(gpus),
        chosen,
        boards,
        tuple(sum(weights[name] for name in there) for there in sizes),
        tuple(map(tuple, sizes)),
    )


# --------------------------------------------------------------------------------- one simulation


def _line(kinds: Sequence[_Kind], asked: Asked, mode: Mode | None, policy: str) -> Line:
    every: dict[_Names, _Totals] = {}
    by_seed: list[float] = []
    used = 0.0
    for seed in range(asked.seeds):
        here: dict[_Names, _Totals] = {}
        for kind, pace in zip(kinds, _paces(kinds, asked.load), strict=True):
            found, in_use = _run(kind, pace, asked, mode, POLICIES[policy], seed=seed)
            _add(here, found)
            used += in_use
        by_seed.append(_memory(here))
        _add(every, here)
    total = _sum(every.values())
    return Line(
        mode=mode or "",
        policy=policy,
        all=_share((), total, total),
        memory=_memory(every),
        by_seed=tuple(by_seed),
        used=used / asked.seeds / sum(map(_capacity, kinds)),
        profiles=tuple(_share(names, one, total) for names, one in every.items()),
    )


def _paces(kinds: Sequence[_Kind], load: float) -> list[float]:
    """How many requests come to each kind in a mean life time."""
    offered = load * sum(map(_capacity, kinds)) / sum(kind.mean() for kind in kinds)
    return [offered * sum(kind.weights) for kind in kinds]


def _run(
    kind: _Kind, pace: float, asked: Asked, mode: Mode | None, policy: Policy, *, seed: int
) -> tuple[dict[_Names, _Totals], float]:
    """Requests in a mean life time by profile, and GiB in use: of all GPUs of the kind."""
    part = len(kind.chosen) / len(kind.gpus)
    arrivals = max(asked.requests, round(_LIVES * pace * part))
    boards = [kind.boards[(mode or _mode(gpu)) is Mode.MIXED_SIZE] for gpu in kind.chosen]
    found = over_time(
        boards,
        Requests(kind.weights, pace * part, asked.patience),
        deciding(boards, [gpu.functions for gpu in kind.chosen], policy),
        seed=seed,
        arrivals=arrivals,
        before=max(asked.requests // 5, round(_BEFORE * pace * part)),
    )
    totals: dict[_Names, _Totals] = {}
    for names, size, one in zip(kind.profiles, boards[0].kinds, found.sizes, strict=True):
        if names:
            counts = (one.asked, one.served, one.waited, one.waiting)
            parts = [pace / arrivals * count for count in counts]
            worth = [gib(size) * parts[0], gib(size) * parts[1]]
            totals[names] = _Totals(*parts, *worth)
    return totals, found.used / part


# ----------------------------------------------------------------------------------------- totals


def _add(totals: dict[_Names, _Totals], others: Mapping[_Names, _Totals]) -> None:
    for names, one in others.items():
        totals[names] = _sum([totals.get(names, _Totals()), one])


def _sum(totals: Iterable[_Totals]) -> _Totals:
    return _Totals(*map(sum, zip(*totals, strict=True)))


def _memory(totals: Mapping[_Names, _Totals]) -> float:
    total = _sum(totals.values())
    return _part(total.gib_served, total.gib_asked, 1.0)


def _share(names: _Names, one: _Totals, total: _Totals) -> Share:
    return Share(
        profiles=names,
        requested=_part(one.asked, total.asked),
        served=_part(one.served, one.asked, 1.0),
        waited=_part(one.waited, one.asked),
        wait=_part(one.waiting, one.waited),
    )


def _part(one: float, whole: float, without: float = 0.0) -> float:
    return one / whole if whole else without
