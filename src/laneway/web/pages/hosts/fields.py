"""The form of a HostPolicy: from what is typed to a spec, and what is wrong, by field.

Lists are typed as words. What cannot be read is a problem of its field, never left out silently;
what can be read is judged by the manager's own rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from laneway.api import (
    HostHugePages,
    HostPolicy,
    HostPolicySpec,
    HostReboot,
    HostRebootWindow,
    HostRollout,
    NodeSelector,
)
from laneway.api.host import MOST_WINDOWS, Weekday
from laneway.controllers.rollout.asked import problems
from laneway.core.rollout.terms import When
from laneway.web.pages.vms.fields import Typed
from laneway.web.rendering import Texts

WHEN: tuple[When, ...] = get_args(When)
DAYS: tuple[Weekday, ...] = get_args(Weekday)
WINDOWS = 2
"""Windows that can be entered; more where a policy has more."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
_MOST_MINUTES, _MOST_PAGES = 1440, 2**20

Wrong = Mapping[str, Sequence[str]]


class Window(NamedTuple):
    """The fields of one window, as they were typed."""

    days: Sequence[str]
    start: str
    minutes: str
    zone: str


class Values(NamedTuple):
    """The fields of the form as they are shown."""

    name: str
    names: str
    labels: str
    iommu: bool
    iommu_passthrough: bool
    vfio_at_boot: bool
    blocked: str
    pages: str
    arguments: str
    when: str
    windows: Sequence[Window]
    max_unavailable: str
    paused: bool
    skip_drain: bool
    stop_vms: bool


def shown(policy: HostPolicy) -> Values:
    """The fields of a policy as it is stored."""
    spec, rollout = policy.spec, policy.spec.rollout
    labels = spec.node_selector.match_labels.items()
    windows = [
        Window(one.days, one.start, str(one.minutes), one.time_zone)
        for one in rollout.reboot.windows
    ]
    return Values(
        name=policy.metadata.name,
        names=" ".join(spec.node_selector.names),
        labels=" ".join(f"{key}={value}" for key, value in labels),
        iommu=spec.iommu,
        iommu_passthrough=spec.iommu_passthrough,
        vfio_at_boot=spec.vfio_at_boot,
        blocked=" ".join(spec.blocked_drivers),
        pages=" ".join(f"{one.size}={one.count}" for one in spec.huge_pages),
        arguments=" ".join(spec.kernel_arguments),
        when=rollout.reboot.when or "Never",
        windows=_and_empty(windows),
        max_unavailable=str(rollout.max_unavailable),
        paused=rollout.paused,
        skip_drain=rollout.skip_drain,
        stop_vms=rollout.stop_vms,
    )


def typed(fields: Typed) -> Values:
    """The fields as they were typed."""
    windows = []
    for at in range(MOST_WINDOWS):
        start, minutes = fields.get(f"start{at}"), fields.get(f"minutes{at}")
        window = Window(fields.all(f"day{at}"), start, minutes, fields.get(f"zone{at}"))
        if any(window):
            windows.append(window)
    return Values(
        name=fields.get("name"),
        names=fields.get("names"),
        labels=fields.get("labels"),
        iommu=bool(fields.get("iommu")),
        iommu_passthrough=bool(fields.get("iommu_passthrough")),
        vfio_at_boot=bool(fields.get("vfio_at_boot")),
        blocked=fields.get("blocked"),
        pages=fields.get("pages"),
        arguments=fields.get("arguments"),
        when=fields.get("when", "Never"),
        windows=_and_empty(windows),
        max_unavailable=fields.get("max_unavailable"),
        paused=bool(fields.get("paused")),
        skip_drain=bool(fields.get("skip_drain")),
        stop_vms=bool(fields.get("stop_vms")),
    )


def _and_empty(windows: Sequence[Window]) -> Sequence[Window]:
    missing = max(WINDOWS - len(windows), 1)
    return [*windows, *[Window((), "", "", "")] * missing]


def is_name(text: str) -> bool:
    """Whether an object may have this name."""
    return len(text) <= 253 and all(map(_NAME.fullmatch, text.split(".")))


def read(given: Values, texts: Texts) -> tuple[HostPolicySpec, Wrong]:
    """The spec, and what is wrong with it; a field with a problem is left out of the spec."""
    wrong: dict[str, list[str]] = {}

    def refuse(field: str, text: str) -> None:
        wrong.setdefault(field, []).append(text)

    labels: dict[str, str] = {}
    for word in _words(given.labels):
        key, equals, value = word.partition("=")
        if not (key and equals):
            refuse("labels", texts("hosts.bad_label", word=word[:60]))
        elif labels.setdefault(key, value) != value:
            refuse("labels", texts("hosts.label_twice", key=key[:60]))
    pages = []
    for word in _words(given.pages):
        size, _, count = word.partition("=")
        number = _number(count, _MOST_PAGES)
        if number is None:
            refuse("pages", texts("hosts.bad_pages", word=word[:60], most=_MOST_PAGES))
        else:
            pages.append(HostHugePages(size=size, count=number))
    windows = []
    for window in filter(any, given.windows):
        minutes = _number(window.minutes, _MOST_MINUTES)
        days = [day for day in DAYS if day in window.days]
        if _TIME.fullmatch(window.start) is None or minutes is None:
            refuse("windows", texts("hosts.bad_window", most=_MOST_MINUTES))
        else:
            windows.append(
                HostRebootWindow(
                    days=days, start=window.start, minutes=minutes, time_zone=window.zone
                )
            )
    when = next((one for one in WHEN if one == given.when), WHEN[0])
    spec = HostPolicySpec(
        node_selector=NodeSelector(match_labels=labels, names=_words(given.names)),
        iommu=given.iommu,
        iommu_passthrough=given.iommu_passthrough,
        vfio_at_boot=given.vfio_at_boot,
        blocked_drivers=_words(given.blocked),
        huge_pages=pages,
        kernel_arguments=given.arguments.split(),
        rollout=HostRollout(
            paused=given.paused,
            max_unavailable=given.max_unavailable,
            skip_drain=given.skip_drain,
            stop_vms=given.stop_vms,
            reboot=HostReboot(when=when, windows=windows),
        ),
    )
    for field, alone in _alone(spec):
        if field not in wrong:
            for text in problems(HostPolicy(spec=alone)):
                refuse(field, text)
    return spec, wrong


def _alone(spec: HostPolicySpec) -> Iterator[tuple[str, HostPolicySpec]]:
    """For each field a policy that is valid but for this field."""
    yield "blocked", HostPolicySpec(blocked_drivers=spec.blocked_drivers)
    yield "pages", HostPolicySpec(huge_pages=spec.huge_pages)
    yield "arguments", HostPolicySpec(iommu=spec.iommu, kernel_arguments=spec.kernel_arguments)
    away = HostRollout(max_unavailable=spec.rollout.max_unavailable)
    yield "max_unavailable", HostPolicySpec(rollout=away)
    yield "windows", HostPolicySpec(rollout=HostRollout(reboot=spec.rollout.reboot))


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(re.split(r"[\s,]+", text.strip(" ,")))) if text.strip(" ,") else []


def _number(text: str, most: int) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return int(text) if is_number and 0 < int(text) <= most else None


FIELDS: Mapping[str, str] = {
    "metadata.name": "name",
    "spec.nodeSelector.names": "names",
    "spec.nodeSelector": "labels",
    "spec.blockedDrivers": "blocked",
    "spec.hugePages": "pages",
    "spec.kernelArguments": "arguments",
    "spec.rollout.maxUnavailable": "max_unavailable",
    "spec.rollout.reboot.windows": "windows",
}
"""The field of the form that shows a field of the object; of two that fit, the first."""


def field_of(path: str) -> str:
    """The field of the form that shows a field of a policy; empty: none does."""
    return next((field for prefix, field in FIELDS.items() if path.startswith(prefix)), "")


def empty() -> Values:
    """What a new policy begins with: what passthrough needs, and no reboot unasked."""
    spec = HostPolicySpec(
        iommu=True,
        vfio_at_boot=True,
        rollout=HostRollout(reboot=HostReboot(when="OnCommand")),
    )
    return shown(HostPolicy(spec=spec))
