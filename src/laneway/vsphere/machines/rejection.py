"""What speaks against making a VM of what a VSphereVM says.

An admission webhook refuses the same, but need not be installed; and what CAPV would
carry out and Laneway does not is only known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from laneway.core.refusals import FieldNotSupported
from laneway.core.vsphere.spec import validation
from laneway.core.vsphere.spec.parsing import Problem
from laneway.core.vsphere.spec.resources import resource_allocations
from laneway.core.vsphere.spec.support import not_carried_out
from laneway.core.vsphere.spec.vm_names import BeyondError, NamingError
from laneway.kube.capv import VSphereVM

INVALID = "InvalidSpec"


class Rejection(NamedTuple):
    """Why no VM is made until the spec changes."""

    reason: str
    words: str


def rejection(vm: VSphereVM, spec: Mapping[str, Any]) -> Rejection | None:
    """What speaks against making it; what a vCenter makes something of does not."""
    wrong = validation.created(validation.VM, vm.metadata.name, spec, "spec")
    if problems := [words(one) for one in wrong if not one.works]:
        return Rejection(INVALID, "; ".join(problems))
    try:
        resource_allocations(spec.get("resources"))
    except ValueError as error:
        return Rejection(INVALID, f"spec.{error}")
    if fields := not_carried_out(spec):
        refusal = FieldNotSupported(fields)
        return Rejection(refusal.reason, refusal.words)
    return None


def unusable_name(error: NamingError) -> Rejection:
    """What speaks against making a VM for whose name there is an unusable template."""
    if isinstance(error, BeyondError):
        refusal = FieldNotSupported(("spec.naming.template",), str(error))
        return Rejection(refusal.reason, refusal.words)
    return Rejection(INVALID, f"spec.naming.template: {error}")


def words(problem: Problem) -> str:
    """Where it is, what is written there, and what is wrong with it."""
    return f"{problem.path}: {problem.value!r}: {problem.message}"
