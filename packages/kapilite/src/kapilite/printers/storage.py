"""Claims of volumes, and the classes that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.printers.parts import Cell, Object, get, text, texts

if TYPE_CHECKING:
    from datetime import datetime

_CLAIMS = "persistentvolumeclaims"
_CLASSES = "storageclasses.storage.k8s.io"
_BUDGETS = "poddisruptionbudgets.policy"
_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS = "volume.beta.kubernetes.io/storage-class"


def _status(claim: Object, _: datetime) -> str:
    if get(claim, "metadata", "deletionTimestamp"):
        return "Terminating"
    return text(claim, "status", "phase")


def _capacity(claim: Object, _: datetime) -> str:
    bound = text(claim, "spec", "volumeName")
    return text(claim, "status", "capacity", "storage") or "0" if bound else ""


def _modes(claim: Object, _: datetime) -> str:
    if not text(claim, "spec", "volumeName"):
        return ""
    given = texts(claim, "status", "accessModes")
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _class(claim: Object, _: datetime) -> str:
    noted = get(claim, "metadata", "annotations", _CLASS)
    return noted if isinstance(noted, str) else text(claim, "spec", "storageClassName")


def _attributes(claim: Object, _: datetime) -> str:
    return text(claim, "spec", "volumeAttributesClassName") or "<unset>"


def _limit(field: str) -> Cell:
    def cell(budget: Object, _: datetime) -> str:
        found = get(budget, "spec", field)
        return "N/A" if found is None else str(found)

    return cell


CELLS: dict[tuple[str, str], Cell] = {
    (_BUDGETS, "Max Unavailable"): _limit("maxUnavailable"),
    (_BUDGETS, "Min Available"): _limit("minAvailable"),
    (_CLAIMS, "Access Modes"): _modes,
    (_CLAIMS, "Capacity"): _capacity,
    (_CLAIMS, "Status"): _status,
    (_CLAIMS, "StorageClass"): _class,
    (_CLAIMS, "VolumeAttributesClass"): _attributes,
    (_CLASSES, "AllowVolumeExpansion"): lambda obj, _: get(obj, "allowVolumeExpansion") is True,
}
