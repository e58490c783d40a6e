"""All nodes that HostPolicies select, and above them how far each policy is."""

from __future__ import annotations

from laneway.web.page import Context, Page
from laneway.web.pages.hosts import rows
from laneway.web.pages.hosts.progress import progress
from laneway.web.visit import Visit


def _context(visit: Visit) -> Context:
    found = rows.rows(visit)
    return {
        "table": rows.table(visit, found).view(found, visit.place),
        "policies": progress(visit, found) if visit.may(rows.LIST_POLICIES) else None,
        "is_served": not visit.caches.preparations.unserved,
        "may_create": visit.may(rows.CREATE),
        "sees_nodes": visit.may(rows.LIST_NODES),
        "concerns": rows.concerns,
    }


PAGES = (
    Page(
        "/hosts",
        "hosts.html",
        _context,
        kinds=rows.KINDS,
        title="nav.hosts",
        needs=(rows.LIST,),
        asks=(rows.LIST_POLICIES, rows.LIST_NODES, rows.CREATE),
    ),
)
