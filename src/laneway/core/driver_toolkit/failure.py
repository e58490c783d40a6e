"""What can go wrong on the way to a driver, and what each failure says.

A failure that may pass (`passing`) is tried again by the running container. Any other needs a
person to change something: the container ends, unless a previous driver serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.driver_toolkit.settings import shown

IN_USE = "DriverInUse"
_NAMED = 4
_MIB = 1024 * 1024


class Failure(NamedTuple):
    """Why there is no driver."""

    reason: str
    message: str
    passing: bool = False


class ToolkitError(Exception):
    """Carries a Failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def settings_invalid(found: Sequence[str]) -> Failure:
    return Failure("SettingsInvalid", "; ".join(found))


def not_found(location: str, status: int) -> Failure:
    return Failure(
        "PackageNotFound",
        f"{shown(location)} answers with status {status}: the package is not there, or may not be "
        "fetched without signing in. Correct driverToolkit.location",
    )


def file_missing(path: str, why: str) -> Failure:
    return Failure(
        "PackageNotFound",
        f"{path} cannot be read: {why}. Put the package there, or correct driverToolkit.location",
    )


def redirect_refused(location: str, target: str, why: str) -> Failure:
    return Failure(
        "RedirectRefused",
        f"{shown(location)} redirects to {shown(target)[:200]!r}, {why}. Set "
        "driverToolkit.location to the final address",
    )


def download_failed(location: str, why: str, tries: int) -> Failure:
    return Failure(
        "DownloadFailed",
        f"{shown(location)} cannot be downloaded: {why} ({tries} attempts). What arrived is kept; "
        "the download continues from there",
        passing=True,
    )


def authorities_unreadable(path: str, why: str) -> Failure:
    return Failure("SettingsInvalid", f"the authorities in {path} cannot be used: {why}")


def wrong_hash(location: str, wanted: str, found: str, size: int) -> Failure:
    return Failure(
        "HashMismatch",
        f"{shown(location)} has SHA-256 {found} ({size} bytes) and not {wanted}. Nothing of it was "
        "run, and it was removed. Compare it with the file that you downloaded from NVIDIA: "
        "sha256sum FILE",
    )


def no_room(error: OSError, path: str) -> Failure:
    """`path`: what was to be written, where the error does not say it."""
    why = error.strerror or str(error)
    return Failure("NodeFull", f"{error.filename or path} cannot be written: {why}", passing=True)


def headers_missing(kernel: str, looked: Sequence[str]) -> Failure:
    return Failure(
        "HeadersMissing",
        f"the headers of the running kernel {kernel} are neither on the node nor in the image "
        f"(looked at {', '.join(looked)}). Install them on the node (Debian and Ubuntu: "
        f"linux-headers-{kernel}; RHEL: kernel-devel-{kernel}; SUSE: kernel-default-devel), or use "
        "an image that has them",
    )


def nouveau_loaded() -> Failure:
    return Failure(
        "OtherDriverLoaded",
        "the kernel has loaded nouveau, which holds the GPUs. Keep it off at boot with the kernel "
        "argument modprobe.blacklist=nouveau, and reboot the node",
    )


def build_failed(version: str, status: int, lines: str) -> Failure:
    return Failure(
        "BuildFailed",
        f"the installer of driver {version} ended with status {status}. The last lines of its log:"
        f"\n{lines or '(the log is empty)'}",
    )


def took_too_long(version: str, seconds: float) -> Failure:
    return Failure(
        "BuildFailed",
        f"the installer of driver {version} did not end within {seconds:g} s and was stopped",
    )


def load_failed(module: str, said: str, kernel: Sequence[str]) -> Failure:
    lines = "\n".join(kernel[-8:])
    text = f"module {module} cannot be loaded: {said or 'no output'}"
    if "Key was rejected" in said or "Required key" in said:
        text += (
            ". Secure Boot accepts signed modules only: switch it off, or enroll the key of a "
            "package that is signed"
        )
    return Failure("LoadFailed", f"{text}{lines and f'. The kernel says:{chr(10)}{lines}'}")


def wrong_version(wanted: str, found: str) -> Failure:
    return Failure(
        "VersionMismatch",
        f"the package installs driver {found or 'of an unknown version'} and not {wanted}. Set "
        "driverToolkit.version to the version of the package",
    )


def in_use(version: str, holders: Sequence[str]) -> Failure:
    more = len(holders) - _NAMED
    listed = "; ".join(holders[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return Failure(
        IN_USE,
        f"driver {version} is in use, so it is not replaced: {listed}. It is replaced once this "
        "has ended",
        passing=True,
    )


def use_unknown(why: str) -> Failure:
    return Failure(
        "UseUnknown", f"Laneway cannot read whether the driver is in use: {why}", passing=True
    )


def not_unloaded(module: str, said: str) -> Failure:
    return Failure(
        IN_USE, f"module {module} cannot be unloaded: {said or 'no output'}", passing=True
    )


def silent(said: str) -> Failure:
    return Failure(
        "DriverSilent",
        f"the driver is loaded, but nvidia-smi gets no answer: {said or 'no output'}",
    )


def daemon_failed(program: str, said: str) -> Failure:
    return Failure("DaemonFailed", f"{program} {said}")


def another_runs(path: str) -> Failure:
    return Failure(
        "AnotherToolkit",
        f"another driver toolkit runs on this node (it holds {path}). Remove one of the two",
    )


def progress(done: int, total: int | None) -> str:
    """How far a download is, in words."""
    if total is None:
        return f"{done // _MIB} MiB"
    return f"{done // _MIB} of {-(-total // _MIB)} MiB ({100 * done // max(total, 1)} %)"
