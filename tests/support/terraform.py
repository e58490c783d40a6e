"""Terraform with the provider of this checkout, each test with a folder and a home of its own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).parents[2]
PYTHON = REPOSITORY / ".venv-terraform" / "bin" / "python"
SOURCE = "terraform.local/laneway/laneway"
WANTED = bool(os.environ.get("LANEWAY_TERRAFORM"))
"""Whether the tests of the provider are to run: those of the tier do."""
LIBRARY = REPOSITORY / "tools" / "terraform" / "run.py"

_HEAD = f"""\
terraform {{
  required_providers {{
    laneway = {{
      source = "{SOURCE}"
    }}
  }}
}}
"""


def program() -> list[str]:
    """What starts Terraform: the program on PATH, else the library."""
    found = shutil.which("terraform")
    return [found] if found else [str(PYTHON), str(LIBRARY)]


class Done(NamedTuple):
    """A command of Terraform that has ended."""

    status: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it printed, however it broke the lines."""
        return " ".join((self.out + self.err).replace("│", " ").split())


class Terraform:
    """A folder with a configuration, and Terraform to apply it."""

    def __init__(self, folder: Path, kubeconfig: str) -> None:
        self.folder = folder
        self.provider = ""
        """More of the provider block."""
        self.kubeconfig = kubeconfig
        self.env: dict[str, str] = {}
        """More of the environment."""
        self._home = folder / "home"
        self._home.mkdir(parents=True)
        plugin = folder / "plugin"
        plugin.mkdir()
        launcher = plugin / "terraform-provider-laneway"
        launcher.write_text(
            f'#!/bin/sh\nexec {PYTHON} -m terraform_provider_laneway.command "$@"\n'
        )
        launcher.chmod(0o755)
        self.installation(f'dev_overrides {{ "{SOURCE}" = "{plugin}" }}\n direct {{}}')

    def installation(self, text: str) -> None:
        """Where Terraform gets providers from."""
        (self.folder / "terraformrc").write_text(f"provider_installation {{\n{text}\n}}\n")

    def write(self, text: str, *, head: bool = True) -> None:
        """The configuration."""
        provider = (
            f'provider "laneway" {{\n  kubeconfig = "{self.kubeconfig}"\n{self.provider}\n}}\n'
        )
        (self.folder / "main.tf").write_text((_HEAD + provider if head else "") + text)

    async def run(self, *arguments: str, status: int = 0) -> Done:
        """Run a command of Terraform; `status` is how it must end."""
        return await self.ended(await self.started(*arguments), status=status)

    async def started(self, *arguments: str) -> Process:
        """A command of Terraform that runs."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "TF_"))}
        return await asyncio.create_subprocess_exec(
            *program(),
            *arguments,
            cwd=self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            env=kept
            | {
                "HOME": str(self._home),
                "TF_CLI_CONFIG_FILE": str(self.folder / "terraformrc"),
                "CHECKPOINT_DISABLE": "1",
                "TF_LOG": "WARN",
                "TF_LOG_PATH": str(self.folder / "log"),
            }
            | self.env,
        )

    async def ended(self, process: Process, *, status: int = 0) -> Done:
        """The same, once it has ended; `status` is how it must."""
        out, err = await process.communicate()
        done = Done(process.returncode or 0, out.decode(), err.decode())
        assert done.status == status, f"{done.out}\n{done.err}"
        assert "Defect of the provider" not in done.words, done.words
        return done

    async def validate(self, text: str, *, status: int = 0) -> Done:
        self.write(text)
        return await self.run("validate", "-no-color", status=status)

    async def plan(self, text: str | None = None, *more: str, status: int = 0) -> Done:
        if text is not None:
            self.write(text)
        return await self.run("plan", "-no-color", "-input=false", *more, status=status)

    async def apply(self, text: str | None = None, *more: str, status: int = 0) -> Done:
        if text is not None:
            self.write(text)
        return await self.run(
            "apply", "-no-color", "-input=false", "-auto-approve", *more, status=status
        )

    async def settled(self) -> None:
        """Nothing is left to change."""
        done = await self.plan(None, "-detailed-exitcode")
        assert "No changes." in done.out, done.out

    async def destroy(self, *more: str, status: int = 0) -> Done:
        return await self.run(
            "destroy", "-no-color", "-input=false", "-auto-approve", *more, status=status
        )

    async def outputs(self) -> dict[str, Any]:
        done = await self.run("output", "-json")
        return {name: one["value"] for name, one in json.loads(done.out).items()}

    async def state(self) -> dict[str, dict[str, Any]]:
        """The attributes of all resources, by their addresses."""
        shown = json.loads((await self.run("show", "-json")).out)
        root = shown.get("values", {}).get("root_module", {})
        return {one["address"]: one["values"] for one in root.get("resources", [])}
