"""`laneway history`: the history of holders, as the web interface tells it.

The interface keeps the history, and answers with the rights of the token that comes with the
request. A token goes unencrypted to this host only.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import click
import msgspec

from laneway.cli import connection, interrupts, table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.output import View, show, table_view
from laneway.core import names
from laneway.core.history import length, moment
from laneway.kube import config
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig, Pem
from laneway.kube.errors import ApiError, ForbiddenError, KubeError, UnauthorizedError

PATH = "/api/v1/history"
_LIMIT = "1000"
_HOW = "Write how long ago, such as 30d or 12h, or a time such as 2026-01-31T08:00:00Z"
_COLUMNS = (
    table.Column("HOLDER"),
    table.Column("DEVICE"),
    table.Column("PROFILE"),
    table.Column("NODE", spare=True),
    table.Column("GPU", wide=True),
    table.Column("FROM"),
    table.Column("TO"),
    table.Column("NOTE"),
)


_FILTERS = {"vm": "VM", "device": "device", "node": "node", "namespace": "namespace"}


class Asked(NamedTuple):
    """What of the history is wanted, as it was typed."""

    vm: str
    device: str
    node: str
    since: str
    until: str


def show_history(
    asked: Asked, url: str, ca_file: str, output: str | None, where: ClusterChoice
) -> None:
    """Print the history. Raises Failure and click.BadParameter."""
    _check(asked)
    vm = asked.vm
    if vm and "/" not in vm:
        vm = f"{connection.namespace_of(where)}/{vm}"
    fields = asked._replace(vm=vm)._asdict()
    if not vm and where.namespace is not None:
        fields["namespace"] = where.namespace
    query = {name: value for name, value in fields.items() if value}
    [found] = pages(query, url, ca_file, where)
    show(_view(found, query), output)


def _check(asked: Asked) -> None:
    """Refuse what no entry can match. Raises click.BadParameter."""
    if asked.vm and not all(map(names.is_object_name, asked.vm.split("/", 1))):
        raise click.BadParameter(
            f"--vm {asked.vm[:80]!r}: no VM can have this name. Write NAME or NAMESPACE/NAME"
        )
    now = int(time.time() * 1000)
    since = begin("--since", asked.since, now) if asked.since else None
    until = _time("--until", asked.until, now) if asked.until else None
    if since is not None and until is not None and until <= since:
        raise click.BadParameter(
            f"--until {asked.until[:60]!r} is not after --since {asked.since[:60]!r}, so nothing "
            "lies between them. Write the earlier time at --since"
        )


def begin(option: str, text: str, now: int) -> int:
    """The time from which the history is wanted. Raises click.BadParameter.

    Times are milliseconds since 1970.
    """
    found = _time(option, text, now)
    if found >= now:
        raise click.BadParameter(
            f"{option} {text[:60]!r} is not in the past, and the history has nothing after now. "
            f"{_HOW}"
        )
    return found


def _time(option: str, text: str, now: int) -> int:
    try:
        return moment(text, now)
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{option} {text[:60]!r} is not a time. {_HOW}") from None


def pages(
    query: Mapping[str, str], url: str, ca_file: str, where: ClusterChoice, most: int = 1
) -> list[Mapping[str, Any]]:
    """The answers of the interface to a query, the newest entries first. Raises Failure.

    `most`: so many pages are asked for; the last one has `continue` where there are more.
    """
    address = _checked(url)
    try:
        known = config.load(where.kubeconfig, where.context)
    except KubeError as error:  # The address of the interface has no part in this.
        raise connection.failure(error) from error
    try:
        ca = Pem(ca_file) if ca_file else None
        site = replace(known, cluster=Cluster(address, ca))
        asking = _asked(site, {**query, "limit": _LIMIT}, most)
        return asyncio.run(interrupts.interruptible(asking))
    except KubeError as error:
        raise _failure(error, address) from error


async def _asked(
    site: ClusterConfig, query: Mapping[str, str], most: int
) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    async with Client(site, connect_delays=()) as client:
        while not found or (found[-1]["continue"] and len(found) < most):
            after = {"continue": found[-1]["continue"]} if found else {}
            found.append(msgspec.json.decode(await client.raw(PATH, {**query, **after})))
    return found


def _checked(url: str) -> str:
    """The address without a slash at its end. Raises Failure."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(
            f"--url {url[:80]} is no address: give https://HOST, or http://127.0.0.1:PORT"
        )
    if parts.scheme == "http" and not _is_here(parts.hostname):
        raise Failure(f"--url {url[:80]} is not encrypted, and gets your token: give https://HOST")
    return url.rstrip("/")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _failure(error: KubeError, url: str) -> Failure:
    match error:
        case UnauthorizedError():
            return Failure(
                f"the web interface at {url} does not accept your credentials: {error}. It takes "
                "a token, so choose a kubeconfig with one: --kubeconfig PATH"
            )
        case ForbiddenError() | ApiError():
            return Failure(str(error))
        case _:
            return Failure(
                f"{error}. Check that the web interface runs, and that --url or LANEWAY_URL is "
                "its address"
            )


def _view(found: Mapping[str, Any], query: Mapping[str, str]) -> View:
    items = found["items"]
    warnings = []
    if found["partial"]:
        warnings.append("you may not list all VMs and pods, so some entries are left out")
    if found["problem"]:
        warnings.append(f"the history is not recorded now: {found['problem']}")
    if found["continue"]:
        last = items[-1]["from"]
        warnings.append(f"there are older entries: laneway history --until {last}")
    rows = tuple(map(_row, items))
    return table_view(
        _COLUMNS,
        [table.Section("", rows)] if rows else [],
        document=found,
        names=list(dict.fromkeys(one["device"] for one in items if one["type"] == "Held")),
        empty=_nothing(found, query),
        warnings=warnings,
    )


def _nothing(found: Mapping[str, Any], query: Mapping[str, str]) -> str:
    """What is said where there is no entry."""
    words = "No entry that you may see" if found["partial"] else "No entry"
    named = [f"{words} {query[one]}" for one, words in _FILTERS.items() if one in query]
    period = [
        f"{one} {text} ago" if length(text) is not None else f"{one} {text}"
        for one in ("since", "until")
        if (text := query.get(one, ""))
    ]
    if named:
        words += f" of {', '.join(named)}"
    if period:
        words += f" {' '.join(period)}"
    if not named and not period and not found["partial"]:
        return f"{words}. An entry appears once a VM or pod holds a device."
    began = found["recordedSince"]
    return (
        f"{words}. The history begins at {began}."
        if began
        else f"{words}. Nothing was recorded yet."
    )


def _row(item: Mapping[str, Any]) -> table.Row:
    since, until = item["from"], item["to"] or "now"
    if item["type"] != "Held":
        node = item.get("node", "")
        why = f"the agent of {node} did not report" if node else "nothing is known of this time"
        cells = (table.EMPTY, table.EMPTY, node or table.EMPTY, table.EMPTY, since, until, why)
        return table.Row(("not observed", *cells))
    holder = item["holder"]
    kind = "pod" if holder["kind"] == "Pod" else "VM"
    notes = []
    if not item["fromObserved"]:
        notes.append("begin not observed")
    if not item["toObserved"]:
        notes.append("end not observed")
    if seconds := item["notObservedSeconds"]:
        notes.append(f"{seconds} s not observed")
    return table.Row(
        (
            f"{kind} {holder['namespace']}/{holder['name']}",
            item["device"],
            item["profile"] or item["resource"],
            item["node"],
            item["gpu"] or table.EMPTY,
            since,
            until,
            ", ".join(notes) or table.EMPTY,
        )
    )
