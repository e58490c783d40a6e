"""CustomResourceDefinitions: what is wrong with one, and the kinds it makes.

A definition that passes `problems` can be served in every version it names: its schemas are
structural and hold nothing this server cannot honour. Objects are kept in one form for all
versions, so there is no conversion but that of apiVersion; a definition that requests a conversion
webhook is refused. Whether it is served, and under which names, `crd_status` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.definitions import acceptance, specs
from kapilite.gotext import urls
from kapilite.kinds import CUSTOM_VERBS, Column, Kind, Scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapilite.problems import Problem

_PATHS = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
_APPROVAL = "api-approved.kubernetes.io"


def default_names(crd: dict[str, Any]) -> None:
    """The names that a definition may leave out, and that its versions are converted by nothing."""
    spec = crd["spec"]
    given = spec["names"]
    kind = given["kind"]
    for name, value in (("listKind", kind and f"{kind}List"), ("singular", kind.lower())):
        if value and not given.get(name):
            given[name] = value
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}


def problems(
    crd: dict[str, Any], old: dict[str, Any] | None, kinds: Iterable[Kind]
) -> list[Problem]:
    """Everything that keeps a definition that was decoded from being stored next to `kinds`."""
    found = [*_naming(crd, old, kinds), *specs.problems(crd["spec"], (old or {}).get("spec"))]
    found.extend(acceptance.problems(crd, old))
    if old is None:
        return found
    new, before = crd["spec"], old["spec"]
    found.extend(_immutable("spec", new, before, ("group",)))
    fixed = ("plural", "kind") if acceptance.is_established(old) else ("plural",)
    found.extend(_immutable("spec.names", new["names"], before["names"], fixed))
    if acceptance.is_established(old):
        found.extend(_immutable("spec", new, before, ("scope",)))
    return found


def established(
    crd: dict[str, Any], old: dict[str, Any] | None, kinds: Iterable[Kind] = ()
) -> dict[str, Any]:
    """The status of a definition next to the kinds that are served."""
    return acceptance.status(crd, old, kinds)


def kinds(crd: dict[str, Any]) -> list[Kind]:
    """One kind for each served version; none while its names are not accepted."""
    if not acceptance.is_established(crd):
        return []
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    storage = next(v["name"] for v in spec["versions"] if v["storage"])
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            namespaced=spec["scope"] == "Namespaced",
            list_name=names.get("listKind") or "",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())),
            schema=version["schema"]["openAPIV3Schema"],
            has_status=(version.get("subresources") or {}).get("status") is not None,
            scale=_scale(version),
            selectable=_selectable(version),
            verbs=CUSTOM_VERBS,
            storage_version=storage,
            warnings=_warnings(spec, version),
            custom=True,
        )
        for version in spec["versions"]
        if version["served"]
    ]


def _scale(version: dict[str, Any]) -> Scale | None:
    raw = (version.get("subresources") or {}).get("scale")
    if raw is None:
        return None
    spec, status, selector = (
        tuple(raw[path][1:].split(".")) if raw.get(path) else () for path in _PATHS
    )
    return Scale(spec_replicas=spec, status_replicas=status, label_selector=selector)


def _warnings(spec: dict[str, Any], version: dict[str, Any]) -> tuple[str, ...]:
    if not version.get("deprecated"):
        return ()
    name = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
    return (version.get("deprecationWarning") or f"{name} is deprecated",)


def _column(raw: dict[str, Any]) -> Column:
    return Column(
        name=raw["name"],
        type=raw["type"],
        json_path=raw["jsonPath"],
        description=raw.get("description", ""),
        format=raw.get("format", ""),
        priority=raw.get("priority", 0),
    )


def _naming(
    crd: dict[str, Any], old: dict[str, Any] | None, kinds: Iterable[Kind]
) -> Iterator[Problem]:
    spec, group = crd["spec"], crd["spec"]["group"]
    wanted = f"{spec['names']['plural']}.{group}"
    name = crd["metadata"].get("name")
    if name != wanted and old is None:
        yield problem.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if group and any(not kind.custom and kind.group == group for kind in kinds):
        yield problem.forbidden("spec.group", "is served by this server itself")
    elif f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        yield from _approval(*((one or {}).get("metadata", {}) for one in (crd, old)))


def _approval(new: dict[str, Any], old: dict[str, Any]) -> Iterator[Problem]:
    """A definition in a group of Kubernetes' own says that it was agreed, or that it was not."""
    text, before = ((meta.get("annotations") or {}).get(_APPROVAL) for meta in (new, old))
    if old and _approved(text) == _approved(before):
        return
    why = f'protected groups must have approval annotation "{_APPROVAL}"'
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not text:
        yield problem.required(f"metadata.annotations[{_APPROVAL}]", f"{why}, {see}")
    elif not _approved(text):
        why += ' with either a URL or a reason starting with "unapproved"'
        yield problem.invalid(f"metadata.annotations[{_APPROVAL}]", text, f"{why}, {see}")


def _approved(text: str | None) -> str | None:
    """Where it was agreed, or that it was not; empty where the text says neither."""
    if not text:
        return None
    if text.startswith("unapproved"):
        return "unapproved"
    try:
        url = urls.parse_request(text)
    except ValueError:
        return ""
    return "approved" if url.scheme and url.host else ""


def _selectable(version: dict[str, Any]) -> tuple[str, ...]:
    """The fields besides metadata that lists of this version can be selected by."""
    return tuple(field["jsonPath"][1:] for field in version.get("selectableFields") or ())


def _immutable(
    path: str, new: dict[str, Any], old: dict[str, Any], fields: Iterable[str]
) -> Iterator[Problem]:
    for field in fields:
        if new[field] != old[field]:
            yield problem.invalid(f"{path}.{field}", new[field], "field is immutable")
