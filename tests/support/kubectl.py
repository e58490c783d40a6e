"""The real kubectl, as a person uses it, against a server in the event loop of a test."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any, NamedTuple

from support.processes import environment

_BESIDE = Path(sys.executable).parent / "kubectl"
KUBECTL = shutil.which("kubectl") or (str(_BESIDE) if _BESIDE.exists() else "")
SECONDS = 60.0


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    err: str


class Kubectl:
    """What one person types."""

    def __init__(self, kubeconfig: str, user: str = "") -> None:
        self._kubeconfig = kubeconfig
        self._user = user

    def as_(self, user: str) -> Kubectl:
        """Another user."""
        return Kubectl(self._kubeconfig, user)

    async def run(self, *arguments: str, stdin: str = "") -> Done:
        process = await asyncio.create_subprocess_exec(
            KUBECTL,
            *([f"--as={self._user}"] if self._user else ()),
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment(KUBECONFIG=self._kubeconfig),
        )
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    async def ok(self, *arguments: str, stdin: str = "") -> str:
        """What a command that succeeds prints, without warnings."""
        done = await self.run(*arguments, stdin=stdin)
        assert (done.status, done.err) == (0, ""), done
        return done.out

    async def warned(self, *arguments: str, stdin: str = "") -> str:
        """What is said of a command that succeeds."""
        done = await self.run(*arguments, stdin=stdin)
        assert done.status == 0, done
        assert done.err.startswith("Warning: "), done
        return done.err

    async def refused(self, *arguments: str, stdin: str = "") -> str:
        """Why a command is refused, as it is shown."""
        done = await self.run(*arguments, stdin=stdin)
        assert done.status == 1, done
        assert "Traceback" not in done.err
        return done.err

    async def apply(self, obj: dict[str, Any], *arguments: str) -> str:
        return await self.ok("create", "-f", "-", *arguments, stdin=json.dumps(obj))

    async def not_applied(self, obj: dict[str, Any], *arguments: str) -> str:
        return await self.refused("create", "-f", "-", *arguments, stdin=json.dumps(obj))

    async def patch(self, *what: str, **spec: Any) -> str:
        return await self.ok("patch", *what, *_merge(spec))

    async def not_patched(self, *what: str, **spec: Any) -> str:
        return await self.refused("patch", *what, *_merge(spec))

    async def get(self, *what: str) -> Any:
        return json.loads(await self.ok("get", *what, "-o", "json"))


def _merge(spec: dict[str, Any]) -> tuple[str, ...]:
    return "--type", "merge", "-p", json.dumps({"spec": spec})
