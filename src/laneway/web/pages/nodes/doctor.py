"""What `laneway doctor cluster` finds: the same look and the same judgement, as the user.

It reads much of the cluster, so it is a page of its own that looks when it is opened.
"""

from __future__ import annotations

from laneway.controllers.doctor.facts import look
from laneway.core.doctor.cluster import judge
from laneway.core.doctor.finding import Finding, Level
from laneway.kube.errors import KubeError
from laneway.views.findings import counted
from laneway.web.page import Context, Page
from laneway.web.visit import Visit

_LEVELS = {Level.PROBLEM: "danger", Level.ADVICE: "warning", Level.OK: "success"}
"""The worst first, each with its sign."""


async def _look(visit: Visit) -> None:
    try:
        visit.data["findings"] = judge(await look(visit.client.unwaiting()))
    except KubeError as error:
        visit.data["error"] = str(error)


def _context(visit: Visit) -> Context:
    findings: list[Finding] = visit.data.get("findings", [])
    order = list(_LEVELS)
    return {
        "error": visit.data.get("error", ""),
        "findings": sorted(findings, key=lambda one: order.index(one.level)),
        "summary": counted(findings),
        "signs": _LEVELS,
    }


PAGES = (Page("/doctor", "doctor.html", _context, title="doctor.title", prepare=_look),)
