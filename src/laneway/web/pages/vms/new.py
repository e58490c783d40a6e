"""A new VM: from a container disk or a PersistentVolumeClaim, with the devices that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from laneway.api import ObjectMeta
from laneway.changes import vms as changes
from laneway.changes.vms import Disk, NewVm
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.kube.errors import ForbiddenError, NotFoundError
from laneway.kube.kubevirt import (
    Cpu,
    Devices,
    Domain,
    InstanceSpec,
    Memory,
    Template,
    VirtualMachineSpec,
)
from laneway.kube.resource import Resource
from laneway.views.vms import bytes_of
from laneway.web.judged import world_of
from laneway.web.page import Action, Again, Context, Done, Page
from laneway.web.pages.vms import form, seen
from laneway.web.pages.vms.fields import Typed, sent, typed
from laneway.web.pages.vms.fit import fit, load
from laneway.web.pages.vms.listing import CREATE
from laneway.web.pages.vms.resources import FAMILIES, LIST_NODES, requested
from laneway.web.place import link
from laneway.web.visit import Visit

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_HOSTNAME = "kubernetes.io/hostname"
_MOST_CORES = 1024


class _Storage(msgspec.Struct, frozen=True):
    requests: Mapping[str, str] = {}


class _ClaimSpec(msgspec.Struct, frozen=True):
    resources: _Storage = _Storage()


class _Claim(msgspec.Struct, frozen=True):
    """A PersistentVolumeClaim, as far as it is shown."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ClaimSpec = _ClaimSpec()


class _Namespace(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_CLAIMS = Resource("", "v1", "persistentvolumeclaims", True, _Claim, "PersistentVolumeClaim")
_NAMESPACES = Resource("", "v1", "namespaces", False, _Namespace, "Namespace")


class Values(NamedTuple):
    """The fields of the form, with what they begin with."""

    namespace: str
    name: str
    source: str
    """`image` or `claim`."""
    image: str
    claim: str
    cores: str
    memory: str
    home: str
    start: bool


def values(visit: Visit, fields: Typed) -> Values:
    """The fields, as far as they are filled in."""
    allowed = visit.data.get("namespaces") or ()
    first = "default" if "default" in allowed else next(iter(allowed), "default")
    is_edited = "cores" in dict(fields.fields)
    return Values(
        namespace=fields.get("namespace") or first,
        name=fields.get("name"),
        source="claim" if fields.get("source") == "claim" else "image",
        image=fields.get("image"),
        claim=fields.get("claim"),
        cores=fields.get("cores", "2"),
        memory=fields.get("memory", "4"),
        home=fields.get("home"),
        start=bool(fields.get("start")) or not is_edited,
    )


async def _prepare(visit: Visit) -> None:
    await seen.load(visit)
    names, is_all = await _namespaces(visit)
    fields = typed(visit)
    names |= {fields.get("namespace")} - {""}
    allowed = await visit.user.access.load_namespaces(CREATE, names)
    visit.data["namespaces"], visit.data["all"] = sorted(allowed), is_all
    given = values(visit, fields)
    visit.data["claims"] = await _claims(visit, given.namespace)
    await load(visit, _consumer(given), _spec(given), _devices(visit, fields))


async def _namespaces(visit: Visit) -> tuple[set[str], bool]:
    """All of them if the user may list them, else those of which something is known."""
    try:
        found = {
            _NAMESPACES.decode(item).metadata.name
            async for page in visit.client.list(_NAMESPACES)
            for item in page.items
        }
    except ForbiddenError:
        pods = {pod.metadata.namespace for pod in visit.caches.pods.store}
        return {"default", *pods, *seen.namespaces(visit)}, False
    return found, True


async def _claims(visit: Visit, namespace: str) -> list[tuple[str, str]] | None:
    """The claims of a namespace with their sizes; None where the user may not list them."""
    try:
        found = [
            _CLAIMS.decode(item)
            async for page in visit.client.list(_CLAIMS, namespace)
            for item in page.items
        ]
    except (ForbiddenError, NotFoundError):
        return None
    return sorted(
        (one.metadata.name, one.spec.resources.requests.get("storage", "")) for one in found
    )


def _devices(visit: Visit, fields: Typed) -> Devices:
    return requested(fields.numbers, fields.all("device"), (), world_of(visit))


def _consumer(given: Values) -> Consumer:
    return Consumer(ConsumerKind.VM, given.namespace, given.name or "new")


def _spec(given: Values) -> VirtualMachineSpec:
    """The part of the VM on which it depends where it fits."""
    cores = int(given.cores) if _is_number(given.cores) else 0
    memory = f"{given.memory}Gi" if bytes_of(f"{given.memory}Gi") > 0 else ""
    spec = InstanceSpec(
        domain=Domain(cpu=Cpu(cores=cores), memory=Memory(guest=memory)),
        node_selector={_HOSTNAME: given.home} if given.home else {},
    )
    return VirtualMachineSpec(template=Template(spec=spec))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text[:6]) <= _MOST_CORES


def _context(visit: Visit) -> Context:
    fields = typed(visit)
    given = values(visit, fields)
    texts = visit.texts
    claims = visit.data.get("claims")
    return {
        **form.choosing(visit, fields),
        **form.helpers(visit),
        "title": texts("vms.new_title"),
        "crumbs": [(texts("nav.vms"), "/vms"), (texts("vms.new_title"), "")],
        "given": given,
        "namespaces": form.options(visit.data.get("namespaces", ())),
        "all_namespaces": visit.data.get("all", False),
        "claims": claims,
        "reason": _refused(visit, given),
        "homes": form.options(
            one.metadata.name for one in visit.caches.nodes.store if visit.may(LIST_NODES)
        ),
        "verdict": form.verdict(
            visit, fields, fit(visit, _consumer(given), _spec(given), _devices(visit, fields))
        ),
        "problems": {**form.wrong(visit, fields), **visit.problems},
    }


def _refused(visit: Visit, given: Values) -> str:
    """Why the user cannot create the VM, as far as rights say; empty: they have them."""
    allowed, is_all = visit.data.get("namespaces", ()), visit.data.get("all", False)
    if given.namespace in allowed:
        return ""
    if is_all and not allowed:
        return visit.texts("vms.may_not_create")
    return visit.texts("vms.may_not_create_in", namespace=given.namespace)


def _problems(visit: Visit, given: Values) -> dict[str, list[str]]:
    texts = visit.texts
    found: dict[str, list[str]] = {}
    if not _NAME.fullmatch(given.name):
        found["name"] = [texts("vms.bad_name")]
    if not (given.image if given.source == "image" else given.claim):
        found["disk"] = [texts(f"vms.no_{given.source}")]
    elif given.source == "image" and not _IMAGE.fullmatch(given.image):
        found["disk"] = [texts("vms.bad_image")]
    if not _is_number(given.cores):
        found["cores"] = [texts("vms.bad_cores", most=_MOST_CORES)]
    if bytes_of(f"{given.memory}Gi") <= 0:
        found["memory"] = [texts("vms.bad_memory")]
    return found


async def _act(visit: Visit) -> Done | Again:
    fields = sent(visit)
    given = values(visit, fields)
    if visit.sent("check"):
        return Again({})
    if wrong := {**form.wrong(visit, fields), **_problems(visit, given)}:
        return Again(wrong)
    is_image = given.source == "image"
    vm = NewVm(
        namespace=given.namespace,
        name=given.name,
        disk=Disk(image=given.image if is_image else "", claim="" if is_image else given.claim),
        cores=int(given.cores),
        memory=f"{given.memory}Gi",
        devices=_devices(visit, fields),
        start=given.start,
        node=given.home,
    )
    try:
        await changes.create(visit.client, vm)
    except form.REFUSED as error:
        return Again(form.problems(visit, error, fields))
    title = f"{vm.namespace}/{vm.name}"
    done = visit.texts("vms.new_done_start" if vm.start else "vms.new_done", name=title)
    return Done(link("vms", vm.namespace, vm.name), done)


PAGE = Page(
    "/vms/new",
    "vms-new.html",
    _context,
    kinds=frozenset({"ledger"}),
    title="vms.new_title",
    asks=(CREATE, LIST_NODES, *FAMILIES.values()),
    prepare=_prepare,
)
ACTION = Action("/vms/new", _act)
