"""What the hint for the scheduler costs: one review of a pod with a vGPU, in CPU time.

The first pods of a webhook that has just started, which work out a part of the nodes each; pods for
which all nodes are known; and pods after the change of a vGPU.
"""

from __future__ import annotations

import random
import time

import msgspec
from support.report import arguments, header, percentile, table
from support.webhook import pod, world

from laneway.admission import pods, review
from laneway.admission.node_costs import MOST_NEW, NodeCosts
from laneway.admission.world import World


def question(number: int, resource: str) -> review.Question:
    request = {
        "uid": f"{number:036d}",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": f"p-{number}",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "anna"},
        "object": pod(f"p-{number}", resource),
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return review.read(msgspec.json.encode(body))


def measured(known: World, asked: review.Question) -> float:
    began = time.process_time()
    pods.mutate(asked, known)
    return time.process_time() - began


def rows_of(nodes: int, gpus: int, machines: int, count: int) -> list[list[str]]:
    costs = NodeCosts()
    known, free = world(nodes, gpus, machines, costs)
    luck, resource = random.Random(7), min(free).partition(" ")[2]
    vgpus = list(known.vgpus)
    number = 0
    rows = []
    for what, pace in (
        ("first pods", -(-nodes // MOST_NEW)),
        ("all known", count),
        ("after a change", count),
    ):
        taken = []
        for _ in range(pace):
            number += 1
            if what == "after a change":
                one = luck.choice(vgpus)
                costs.changed(one, one)
            taken.append(measured(known, question(number, resource)))
        figures = (percentile(taken, 50), percentile(taken, 99))
        rows.append([f"{nodes}", what, *(f"{one * 1000:.2f}" for one in figures)])
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--gpus", type=int, default=8, help="of 16 vGPUs, per node")
    parser.add_argument("--pods", type=int, default=200)
    asked = parser.parse_args()
    header()
    rows = [
        row
        for nodes, machines in ((3, 10), (1000, 5000))
        for row in rows_of(nodes, asked.gpus, machines, asked.pods)
    ]
    table("Mutation of a pod with a vGPU", ["nodes", "pods", "p50 ms", "p99 ms"], rows)


if __name__ == "__main__":
    main()
