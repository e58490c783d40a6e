"""Whether VMs get a claimed device alone, or any that is like it.

Devices with the same resource name are a pool: a VM gets one of them that is free. A device with a
resource name of its own is the one that a VM gets.
"""

from __future__ import annotations

from msgspec.structs import replace

from laneway.admission.rules.claims import RULES
from laneway.api import PCIDeviceClaim
from laneway.changes import specs
from laneway.core import names
from laneway.kube.resource import served
from laneway.web import judged
from laneway.web.access import question
from laneway.web.page import Action, Context, Done, NotFound, Page
from laneway.web.pages.pci.family import FAMILY
from laneway.web.pages.pci.listing import LIST, LIST_CLAIMS
from laneway.web.place import link
from laneway.web.visit import Visit

PATCH = question("patch", served(PCIDeviceClaim))


def _claim(visit: Visit) -> PCIDeviceClaim:
    claim = visit.caches.claims.store.get(visit.name("name"))
    if claim is None:
        raise NotFound(visit.name("name"))
    return claim


def _context(visit: Visit) -> Context:
    claim = _claim(visit)
    device = visit.caches.pci.store.get(claim.metadata.name)
    exact = not claim.spec.disable_resource_pooling
    after = replace(claim, spec=replace(claim.spec, disable_resource_pooling=exact))
    verdict = judged.update(visit, RULES, claim.metadata.name, claim, after)
    pooled = device.status.resource_name if device is not None else ""
    own = names.pinned_resource_name(pooled, claim.metadata.name)
    return {
        "title": visit.texts("pci.resource_title", name=claim.metadata.name),
        "name": claim.metadata.name,
        "exact": exact,
        "now": claim.status.resource_name,
        "after": own if exact else pooled,
        "warnings": verdict.warnings if visit.may(PATCH) else (),
        "reasons": judged.against(visit, PATCH, verdict),
        "problems": visit.problems.get("", ()),
    }


async def _act(visit: Visit) -> Done:
    name, exact = _claim(visit).metadata.name, visit.sent("exact") == "on"
    fields = {"disableResourcePooling": exact}
    await specs.write(visit.client, served(PCIDeviceClaim), name, fields)
    done = "pci.is_exact" if exact else "pci.is_pooled"
    return Done(link("pci", name), visit.texts(done, name=name))


PAGES = (
    Page(
        "/pci/{name}/resource",
        "pci-resource.html",
        _context,
        needs=(LIST, LIST_CLAIMS),
        asks=(*FAMILY.rights, PATCH),
    ),
)
ACTIONS = (Action("/pci/{name}/resource", _act),)
