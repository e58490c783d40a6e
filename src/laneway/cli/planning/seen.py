"""The demand of `laneway plan layout` where no profiles are named: what VMs request, and requested.

What was in use before comes from the history of the web interface, page by page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import click

from laneway.cli import history
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.core.fleet.demand import Demand, Held, demand, peaks
from laneway.core.fleet.model import Fleet
from laneway.core.history import moment
from laneway.core.phrases import few, short_name

_MOST_PAGES = 100


class Past(NamedTuple):
    """From where the history is taken, as it was typed."""

    since: str
    """Empty: none is taken."""
    url: str
    ca_file: str


def demand_of(fleet: Fleet, past: Past, where: ClusterChoice) -> Demand:
    """What VMs request, and once had. Raises Failure."""
    return demand(fleet, peaks(_held(past, where)) if past.since else {})


def _held(past: Past, where: ClusterChoice) -> Iterator[Held]:
    found = history.pages({"since": past.since}, past.url, past.ca_file, where, _MOST_PAGES)
    if found[-1]["continue"]:
        last = found[-1]["items"][-1]["from"]
        raise Failure(
            f"the history since {past.since} has more entries than can be counted. Choose a later "
            f"time: --since {last}"
        )
    items = [item for page in found for item in page["items"]]
    warnings = []
    if found[0]["partial"]:
        warnings.append("you may not list all VMs and pods, so what others had is not counted")
    if any(item["type"] != "Held" for item in items):
        warnings.append("the history has times in which nothing was observed")
    for one in warnings:
        click.echo(f"laneway: warning: {one}", err=True)
    for item in items:
        if item["type"] == "Held" and item["profile"]:
            until = item["to"] and moment(item["to"], 0)
            yield Held(item["profile"], moment(item["from"], 0), until)


def report(found: Demand, past: Past) -> Iterator[str]:
    """The demand in lines."""
    more = found.more
    if not more:
        yield "No VM waits for a vGPU" + (
            f", and no more were in use at a time since {past.since} than now."
            if past.since
            else ". Name profiles, or look at the history: --since 7d."
        )
    for name, count in more.items():
        one = found.profiles[name]
        once = f", at most {one.most} at a time since {past.since}" if past.since else ""
        waits = f", {one.waiting} requested by VMs that wait" if one.waiting else ""
        yield f"Demand: {count} x {short_name(name)}; in use {one.in_use}{once}{waits}."
    if found.nowhere:
        yield f"Left out, because no GPU offers it: {few(found.nowhere)}."
