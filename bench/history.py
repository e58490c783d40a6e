"""What the history of holders costs: changes recorded per CPU second, and questions at a million.

Changes are written as the interface gathers them, so many at a time. Questions are those of the
page and the API, each for its first page of 100 entries.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import time
from collections.abc import Iterator

from support.report import arguments, header, middle, ms, percentile, table

from laneway.core.history import Hold
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.web.history.finding import Query
from laneway.web.history.store import NAME, Event, Keeping, Store

NODES, DEVICES, VMS, SPACES = 1_000, 128, 20_000, 50
STEP = 100
"""Milliseconds between two changes."""


def changes(luck: random.Random) -> Iterator[Event]:
    """Devices of a fleet get a holder and lose it again."""
    held: set[str] = set()
    for number in itertools.count(1):
        node = luck.randrange(NODES)
        device = f"node-{node:04d}-0000{luck.randrange(DEVICES):02x}004"
        hold = None
        if device not in held:
            vm = luck.randrange(VMS)
            hold = Hold(
                device,
                f"node-{node:04d}",
                "nvidia.com/NVIDIA_L40S-12Q",
                Consumer(ConsumerKind.VM, f"team-{vm % SPACES}", f"vm-{vm:05d}"),
                f"node-{node:04d}-000008000",
                "NVIDIA L40S-12Q",
            )
        held.symmetric_difference_update({device})
        yield Event(number * STEP, device, hold)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    header()
    luck = random.Random(21)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Keeping(folder, days=3650, mebibytes=65_536))
        store.begin(0, [])
        events = changes(luck)
        table(
            "Recording, by how many changes come in one write",
            ("changes", "a CPU second"),
            [(f"{size}", f"{_recorded(store, events, size):,.0f}") for size in (1, 25, 500)],
        )
        held = last = 0
        while held < options.rows:
            some = list(itertools.islice(events, 20_000))
            store.write(some, some[-1].at)
            held += sum(event.hold is not None for event in some)
            last = some[-1].at
        quiet = Consumer(ConsumerKind.VM, "quiet", "vm")
        few = [Hold(f"quiet-{number}", "quiet", "", quiet) for number in range(3)]
        store.write([Event(STEP * number, one.device, one) for number, one in enumerate(few)], last)
        size = os.stat(os.path.join(folder, NAME)).st_size / (1 << 20)
        rows = [
            (name, *_asked(store, query, allowed, options.repeat))
            for name, query, allowed in _questions(last)
        ]
        table(
            f"Questions at {held:,} entries, {size:,.0f} MiB: CPU in ms",
            ("question", "p50", "p99"),
            rows,
        )
        store.close()


def _recorded(store: Store, events: Iterator[Event], size: int) -> float:
    some = list(itertools.islice(events, size * 200))
    began = time.process_time()
    for first in range(0, len(some), size):
        part = some[first : first + size]
        store.write(part, part[-1].at)
    return len(some) / (time.process_time() - began)


def _questions(last: int) -> list[tuple[str, Query, list[Consumer] | None]]:
    mine = [Consumer(ConsumerKind.VM, "team-7", "")]
    half = [Consumer(ConsumerKind.VM, f"team-{number}", "") for number in range(0, SPACES, 2)]
    middle_of, early = (last // 2, 1 << 40), (last // 4, 1 << 40)
    never_met = Query(limit=100, node="node-0007", namespace="quiet")
    return [
        ("the newest", Query(limit=100), None),
        ("a page in the middle", Query(limit=100, after=middle_of), None),
        ("one VM", Query(limit=100, namespace="team-7", name="vm-00007"), None),
        ("one device", Query(limit=100, device="node-0007-000001004"), None),
        ("one node", Query(limit=100, node="node-0007"), None),
        ("a node in the oldest tenth", Query(limit=100, node="node-0007", until=last // 10), None),
        ("held in the last tenth", Query(limit=100, since=last - last // 10), None),
        ("one namespace", Query(limit=100, namespace="team-7"), None),
        ("a namespace with three entries", Query(limit=100, namespace="quiet"), None),
        ("a VM's name in any namespace", Query(limit=100, name="vm-00007"), None),
        ("a user of one namespace", Query(limit=100), mine),
        ("a user of half of them", Query(limit=100), half),
        ("held at the end", Query(limit=100, since=last), None),
        (
            "held at the end, of one namespace",
            Query(limit=100, since=last, namespace="quiet"),
            None,
        ),
        ("held in the middle, the last page", Query(limit=100, since=last // 2, after=early), None),
        ("a device that is not there", Query(limit=100, device="nothing"), None),
        ("a VM and a node that never met", Query(limit=100, node="x", name="vm-00007"), None),
        ("a node and a namespace that never met", never_met, None),
        ("a namespace that is not there", Query(limit=100, namespace="nothing"), None),
    ]


def _asked(
    store: Store, query: Query, allowed: list[Consumer] | None, repeat: int
) -> tuple[str, str]:
    seconds = []
    for _ in range(repeat):
        began = time.process_time()
        store.find(query, allowed)
        seconds.append(time.process_time() - began)
    return ms(middle(seconds)), ms(percentile(seconds, 99))


if __name__ == "__main__":
    main()
