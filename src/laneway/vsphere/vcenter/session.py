"""One session at a vCenter, shared by all connections to it.

A vCenter keeps only so many sessions, so the threads share one: whichever needs it first logs in,
the others use its cookie. When vCenter has forgotten the session, the first to notice logs in
again, once; requests that only read are then repeated, orders are not: their caller has to look
first at what became of them. A refused login is final: nothing is asked again with it, so that no
account is locked for too many failures. So is the end: a request after it does not log in again, as
that session would never be logged out.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, TypeVar

from laneway.vsphere.port import Credentials, LoginRefusedError, UnreachableVCenterError
from laneway.vsphere.vcenter.faults import translated
from laneway.vsphere.vcenter.http import Trust
from laneway.vsphere.vcenter.pyvmomi import vim, vmodl
from laneway.vsphere.vcenter.stub import Stub, version_for

T = TypeVar("T")

OLDEST = (7, 0)
"""Dynamic DirectPath I/O and the bindings of devices to VMs came with it."""


class Session:
    """The methods are for threads; the stubs that they are given belong to the calling thread."""

    def __init__(
        self, server: str, host: str, port: int, trust: Trust, credentials: Credentials
    ) -> None:
        self.server = server
        self.content: Any = None
        """vCenter's `ServiceContent`, once logged in. Its objects are to be bound to a stub."""
        self._host = host
        self._port = port
        self._trust = trust
        self._credentials = credentials
        self._lock = threading.Lock()
        self._cookie = ""
        self._version = ""
        self._refused = ""
        self._left = False

    def stub(self) -> Stub:
        return Stub(self._host, self._port, self._trust)

    def ask(self, stub: Stub, ask: Callable[[Stub], T], *, again: bool) -> T:
        """What `ask` returns, in a session; raises only errors of the port."""
        try:
            return self._ask(stub, ask, again=again)
        except Exception as error:
            known = translated(error, self.server)
            if known is error:
                raise
            raise known from error

    def _ask(self, stub: Stub, ask: Callable[[Stub], T], *, again: bool) -> T:
        cookie = self._enter(stub)
        try:
            return ask(stub)
        except vim.fault.NotAuthenticated:
            self._enter(stub, lost=cookie)
            if not again:
                raise
        except (OSError, HTTPException):
            # It may have been closed by the other side while it was idle.
            if not again or stub.severed:
                raise
        return ask(stub)

    def _enter(self, stub: Stub, lost: str = "") -> str:
        with self._lock:
            if self._left:
                raise UnreachableVCenterError(f"the connection to {self.server} was closed")
            if self._refused:
                raise LoginRefusedError(self._refused)
            if not self._cookie or self._cookie == lost:
                self._cookie = ""
                try:
                    self._login(stub)
                except vim.fault.InvalidLogin as error:
                    self._refused = str(translated(error, self.server))
                    raise
            stub.cookie = self._cookie
            stub.ComputeVersionInfo(self._version)
            return self._cookie

    def _login(self, stub: Stub) -> None:
        stub.cookie = ""
        instance = vim.ServiceInstance("ServiceInstance", stub)
        content = instance.RetrieveContent()
        about = content.about
        if about.apiType != "VirtualCenter":
            raise LoginRefusedError(f"{self.server} is no vCenter but {about.fullName}")
        self._version = version_for(about.apiVersion)
        numbers = tuple(int(part) for part in about.apiVersion.split(".")[:2] if part.isdigit())
        if numbers < OLDEST:
            raise LoginRefusedError(
                f"{self.server} is {about.fullName}; at least version 7.0 is needed"
            )
        stub.ComputeVersionInfo(self._version)
        content = instance.RetrieveContent()  # as the version in use has it
        content.sessionManager.Login(self._credentials.user, self._credentials.password, None)
        if not stub.cookie:
            raise UnreachableVCenterError(f"{self.server} gives no session")
        self.content = content
        self._cookie = stub.cookie

    def leave(self, stub: Stub) -> None:
        """Log out for good, if there is a session; that it fails is of no consequence."""
        with self._lock:
            self._left = True
            cookie, self._cookie = self._cookie, ""
        if cookie:
            stub.cookie = cookie
            stub.ComputeVersionInfo(self._version)
            with contextlib.suppress(OSError, HTTPException, vmodl.MethodFault):
                ref = self.content.sessionManager._moId  # noqa: SLF001 - how pyVmomi names it
                vim.SessionManager(ref, stub).Logout()
