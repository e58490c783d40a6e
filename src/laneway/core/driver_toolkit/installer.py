"""The command line of NVIDIA's installer, and what its log says.

Options come and go between releases (`--skip-module-load` with 550, `--no-kernel-modules` had no
`s`, a check of the compiler's version could be left out until it was dropped), and the installer
ends at one that it does not know. So a package is asked for its options first, and gets those of
ours that it has. What only names files and folders has always been there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

ASK = "--advanced-options"
_OPTION = re.compile(r"--([a-z][a-z0-9-]{1,60})")
_ALWAYS = (
    "no-questions",
    "no-x-check",
    "no-backup",
    "no-systemd",
    "no-dkms",
    "no-rebuild-initramfs",
    "no-check-for-alternate-installs",
    "no-cc-version-check",  # the image's compiler is hardly ever the kernel's own
    "no-opengl-files",
    "no-drm",
)
"""Nothing is asked, and nothing is changed but what vGPUs need."""
_MODULES = ("skip-module-load", "skip-depmod")
"""We load them, to see why one does not load."""
_PROGRAMS = ("no-kernel-modules", "no-kernel-module", "allow-installation-with-running-driver")
_BORING = re.compile(r"^\s*(make(\[\d+\])?: (Entering|Leaving) directory.*|-> .*done\.?|)\s*$")
_TELLING = re.compile(r"\berror\b|\bfatal\b|no such file|\*\*\*|undefined", re.IGNORECASE)


def options_of(help_text: str) -> frozenset[str]:
    """The options that a package describes, without their dashes."""
    return frozenset(_OPTION.findall(help_text))


def arguments(
    package: str, known: Iterable[str], *, folder: str, log: str, headers: str, modules: str
) -> list[str]:
    """Install everything. `modules`: the folder for the kernel modules."""
    return [
        *_common(package, known, folder, log),
        *_known(_MODULES, known),
        f"--kernel-source-path={headers}",
        f"--kernel-install-path={modules}",
    ]


def programs_only(package: str, known: Iterable[str], *, folder: str, log: str) -> list[str]:
    """Install the programs and libraries next to modules that are in the kernel."""
    return [*_common(package, known, folder, log), *_known(_PROGRAMS, known)]


def _common(package: str, known: Iterable[str], folder: str, log: str) -> list[str]:
    # Its beginning is a shell script that unpacks the rest.
    start = ["/bin/sh", package, "--silent", f"--tmpdir={folder}", f"--log-file-name={log}"]
    return [*start, *_known(_ALWAYS, known)]


def _known(options: Iterable[str], known: Iterable[str]) -> list[str]:
    found = frozenset(known)
    return [f"--{option}" for option in options if option in found]


def telling_lines(log: str, count: int = 12) -> str:
    """The lines of a build's log that say why it failed: its errors, or else its end."""
    lines = [line.rstrip() for line in log.splitlines() if not _BORING.match(line)]
    errors = [line for line in lines if _TELLING.search(line)]
    return "\n".join((errors or lines)[-count:])
