"""Faults of vCenter as data, and everything else that can go wrong as the errors of the port."""

from __future__ import annotations

import ssl
from typing import Any

from laneway.core.vsphere.inventory.vms import Fault
from laneway.vsphere.port import (
    FaultError,
    LoginRefusedError,
    NotFoundInVCenterError,
    UnreachableVCenterError,
    VCenterError,
)
from laneway.vsphere.vcenter.pyvmomi import vim, vmodl

_TEXT_LIMIT = 2000
"""Conditions are read by people; vCenter's longest texts are a few hundred characters."""


def fault_of(error: Any) -> Fault:
    """From a `MethodFault`: pyVmomi has moved the localised text of its wrapper into `msg`."""
    name = type(error).__name__.rpartition(".")[2]
    texts = [_text(error.msg)]
    texts += [_text(message.message) for message in error.faultMessage or ()]
    cause = error.faultCause
    if cause is not None and isinstance(cause, vmodl.MethodFault):
        texts.append(_text(cause.msg))
    said: list[str] = []
    for text in texts:
        if text and not any(text in before for before in said):
            said.append(text)
    return Fault(name, " ".join(said)[:_TEXT_LIMIT] or _unsaid(error))


def _text(value: object) -> str:
    return " ".join(str(value).split()) if value else ""


def _unsaid(error: Any) -> str:
    """For faults without any text: what they carry instead."""
    named = getattr(error, "name", None) or getattr(error, "invalidProperty", None)
    return f"vCenter gives no text ({named})" if named else "vCenter gives no text"


def translated(error: Exception, server: str) -> VCenterError:
    """What an exception of pyVmomi, of the wire or of reading an answer means to callers."""
    match error:
        case VCenterError():
            return error
        case vim.fault.InvalidLogin():
            return LoginRefusedError(
                f"{server} refuses the user or the password: {fault_of(error).text}"
            )
        case vmodl.fault.ManagedObjectNotFound():
            return NotFoundInVCenterError(f"{server} has no {_moid(error.obj)} (any more)")
        case vim.fault.NotAuthenticated():
            return UnreachableVCenterError(f"the session at {server} had ended; connecting again")
        case vmodl.MethodFault():
            return FaultError(fault_of(error))
        case ssl.SSLCertVerificationError():
            return LoginRefusedError(
                f"the certificate of {server} is not trusted: {error.verify_message}; give its"
                " thumbprint or its certificate authority"
            )
        case TimeoutError():
            return UnreachableVCenterError(f"{server} does not answer in time")
        case OSError():
            return UnreachableVCenterError(f"{server} cannot be reached: {error}")
        case _:
            said = " ".join(str(error).split())[:200]
            return UnreachableVCenterError(
                f"{server} answers what no vCenter would: {type(error).__name__} {said}"
            )


def _moid(ref: Any) -> str:
    return str(getattr(ref, "_moId", "such object"))
