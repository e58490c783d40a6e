"""pyVmomi's stub over our own wire, and nothing but proper answers out of it."""

from __future__ import annotations

from http.client import HTTPException
from typing import Any

from laneway.vsphere.port import VCenterError
from laneway.vsphere.vcenter.http import Trust, Wire
from laneway.vsphere.vcenter.pyvmomi import SoapStubAdapter, service_versions, version_ids, vmodl

FIRST_VERSION = "vim.version.version9"
"""What every vCenter since 5.5 understands: enough to ask it for its own."""


class Nonsense(Exception):  # noqa: N818 - it says what the server talks
    """The server answered something that vCenter would not."""


class Stub(SoapStubAdapter):  # type: ignore[misc]  # pyVmomi has no types
    """Of one thread. One connection, kept open, which another thread may sever."""

    def __init__(self, host: str, port: int, trust: Trust) -> None:
        super().__init__(
            host=host,
            port=port,
            poolSize=1,
            connectionPoolTimeout=-1,  # whether it is still open is looked at instead
            acceptCompressedResponses=False,
            version=FIRST_VERSION,
        )
        self.scheme = Wire
        self.schemeArgs = {"trust": trust}
        self._current: Wire | None = None
        self.severed = False
        """The caller has given up: nothing more is to be sent for it."""

    def GetConnection(self) -> Wire:  # noqa: N802 - pyVmomi's
        """The open connection, or a new one."""
        if self.severed:
            raise TimeoutError
        if self.pool and not self.pool[0][0].idle():
            self.DropConnections()
        wire: Wire
        if self.pool:
            wire = self.pool.pop(0)[0]
            self._current = wire
        else:
            wire = self.scheme(
                self.host.rpartition(":")[0].strip("[]"), self.port, **self.schemeArgs
            )
            self._current = wire
            wire.connect()
        return wire

    def sever(self) -> None:
        """From another thread: end what this one is waiting for."""
        self.severed = True
        wire = self._current
        if wire is not None:
            wire.sever()

    def InvokeMethod(  # noqa: N802 - pyVmomi's
        self,
        mo: Any,
        info: Any,
        args: Any,
        outerStub: Any = None,  # noqa: N803 - the same
    ) -> Any:
        """Raises a MethodFault of vCenter, an OSError, an HTTPException, or Nonsense."""
        try:
            answer = super().InvokeMethod(mo, info, args, outerStub)
        except (vmodl.MethodFault, VCenterError, OSError, HTTPException):
            raise
        except Exception as error:  # the parser's own, of whatever kind
            raise Nonsense(f"to {info.name}: {type(error).__name__} {error}") from error
        kind = info.result
        if isinstance(answer, vmodl.MethodFault):
            raise answer  # a fault, whatever status it came with
        if answer is not None and isinstance(kind, type) and not isinstance(answer, kind):
            raise Nonsense(f"to {info.name}: {type(answer).__name__}")
        return answer


def version_for(api_version: str) -> str:
    """The newest version that both sides know."""
    theirs = _numbers(api_version)
    known = [
        (_numbers(version_ids[name]), name)
        for name in service_versions("vim25")
        if name.startswith("vim.version.v") and _numbers(version_ids[name])
    ]
    fitting = [(numbers, name) for numbers, name in known if numbers <= theirs]
    return str(max(fitting)[1]) if fitting else FIRST_VERSION


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        return ()
    numbers = tuple(map(int, parts))
    return numbers + (0,) * (4 - len(numbers))
