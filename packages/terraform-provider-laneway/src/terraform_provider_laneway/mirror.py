"""The provider as a file in a folder from which Terraform takes providers.

The file is a launcher: it starts the Python environment in which the provider is installed. What
is installed there is used, so Terraform's lock file holds for as long as that environment stays
where it is. A new version of the provider is another file.
"""

from __future__ import annotations

import os
import platform
import shlex
from importlib.metadata import version

from kubebasics.files import write_atomically
from terraform_provider_laneway.provider import SOURCE

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_LAUNCHER = """\
#!/bin/sh
# Laneway's provider for Terraform, version {version}. Made by laneway-terraform-provider mirror.
exec {python} -m terraform_provider_laneway.command "$@"
"""
_CONFIGURATION = """
To use it, write this into ~/.terraformrc, or into the file that TF_CLI_CONFIG_FILE names:

provider_installation {{
  filesystem_mirror {{
    path    = {path}
    include = ["{source}"]
  }}
  direct {{
    exclude = ["{source}"]
  }}
}}
"""


def target() -> str:
    """The platform, as Terraform calls it: `linux_amd64`."""
    machine = platform.machine()
    return f"{platform.system().lower()}_{_ARCHITECTURES.get(machine, machine)}"


def write(directory: str, python: str) -> str:
    """Write the launcher; gives its path. `python`: that of the environment. Raises OSError."""
    number = version("terraform-provider-laneway")
    folder = os.path.join(os.path.abspath(directory), SOURCE, number, target())
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"terraform-provider-laneway_v{number}")
    text = _LAUNCHER.format(version=number, python=shlex.quote(os.path.abspath(python)))
    write_atomically(path, text.encode(), 0o755)
    return path


def configuration(directory: str) -> str:
    """What Terraform's own configuration file needs, in words."""
    path = os.path.abspath(directory).replace("\\", "\\\\").replace('"', '\\"')
    return _CONFIGURATION.format(path=f'"{path}"', source=SOURCE)
