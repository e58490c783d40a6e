"""Recognises what boots a host, and reads its files.

What the firmware was told by the loader itself comes first, because several loaders may be
installed. Everything else goes by the files that a loader cannot be without.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping

from laneway.core.preparation.facts import BootLoader, LoaderName
from laneway.core.preparation.loaders import LOADERS, bls, elemental, entry_files, grub
from laneway.core.preparation.loaders.loader import Entry, Loader
from laneway.host.port import Host

_LOADER_INFO = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
"""What the loader that was used calls itself, by systemd's interface for boot loaders."""
_COPIED = "/etc/kernel/proxmox-boot-uuids"
"""Where another program copies what boots to partitions that are not mounted."""
_SYSTEMD_BOOT = ("/efi/EFI/systemd", "/boot/EFI/systemd", "/boot/efi/EFI/systemd")
_MKCONFIG = ("/usr/sbin/grub-mkconfig", "/sbin/grub-mkconfig")
_BLS_CONFIGS = ("/boot/grub2/grub.cfg", "/etc/grub2-efi.cfg", "/etc/grub2.cfg")


class Reader:
    """Reads texts; owns the list of those that it could not read."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.unreadable: dict[str, str] = {}

    def text(self, path: str, errors: str = "strict") -> str | None:
        """The file; None where it is not there or cannot be read. `errors`: see bytes.decode."""
        try:
            return self.host.read(path).decode(errors=errors)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.unreadable[path] = error.strerror or str(error)
        except UnicodeDecodeError:
            self.unreadable[path] = "it is not text in UTF-8"
        return None

    def texts(self, paths: Iterable[str], errors: str = "strict") -> dict[str, str]:
        """Those that are there."""
        return {path: text for path in paths if (text := self.text(path, errors)) is not None}

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none where it is not there."""
        try:
            return sorted(self.host.names(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.unreadable[path] = error.strerror or str(error)
            return []


def read_loader(read: Reader) -> BootLoader:
    """What boots the host."""
    name = _recognise(read)
    if name == "unknown":
        return BootLoader()
    files = read.texts(_paths(name, read))
    missing = tuple(absent(read.host, LOADERS[name], files))
    return BootLoader(name=name, files=files, missing=missing)


def absent(host: Host, loader: Loader, files: Mapping[str, str]) -> Iterator[str]:
    """Kernels and initial RAM disks that an entry names, and that are not there."""
    seen = set()
    for entry in loader.boots(files):
        for path in (entry.kernel, *entry.initrds):
            if path and path not in seen and not any(map(host.exists, _places(entry, path))):
                yield path
            seen.add(path)


def _places(entry: Entry, path: str) -> Iterator[str]:
    """Where a path of an entry may be: it counts from the partition that the loader reads."""
    home = entry.place.partition("/loader/entries/")[0]
    for folder in dict.fromkeys(("", "/boot", home if home != entry.place else "")):
        yield posixpath.normpath(f"{folder}/{path}")
    # A subvolume of btrfs, or a dataset of ZFS, comes first in the path. Not on an EFI partition:
    # there, the kernel's package has files of the same names in /boot, which nothing starts.
    if home in ("/boot", entry.place):
        yield f"/boot/{posixpath.basename(path)}"


def _recognise(read: Reader) -> LoaderName:
    host = read.host
    if host.exists(_COPIED):
        return "unknown"
    if host.exists(elemental.IMAGE):
        return "elemental"
    used = _used(host)
    if used.startswith("systemd-boot"):
        return "systemd-boot"
    mkconfig = " ".join(read.texts(_MKCONFIG).values())
    if host.exists(grub.DEBIAN_CONFIG) and "/default/grub.d/" in mkconfig:
        return "grub"
    defaults = read.text(grub.DEFAULTS) or ""
    entries = [path for folder in entry_files.FOLDERS for path in read.names(folder)]
    reads_entries = "blscfg" in " ".join(read.texts(_BLS_CONFIGS).values())
    if entries and (reads_entries or "GRUB_ENABLE_BLSCFG=true" in defaults.replace('"', "")):
        return "bls"
    if host.exists(grub.SUSE_CONFIG) and defaults:
        return "grub2"
    if entries and not used.startswith("GRUB") and any(map(host.exists, _SYSTEMD_BOOT)):
        return "systemd-boot"
    return "unknown"


def _used(host: Host) -> str:
    """What the loader called itself; empty where it did not."""
    try:
        # Four bytes of attributes come first.
        return host.read(_LOADER_INFO)[4:].decode("utf-16-le", "replace").strip("\0")
    except OSError:
        return ""


def _paths(name: LoaderName, read: Reader) -> Iterator[str]:
    generator = LOADERS[name].generator
    if generator is not None:
        yield from (generator.config, generator.candidate, grub.DEFAULTS)
        drop_ins = (one for one in read.names(grub.DROP_INS) if grub.is_drop_in(one))
        yield from (f"{grub.DROP_INS}/{one}" for one in drop_ins)
    elif name == "elemental":
        yield from (elemental.ENVIRONMENT, elemental.IMAGE)
    else:
        yield from (entry_files.COMMAND_LINE, entry_files.RECORD)
        if name == "bls":
            yield bls.ENVIRONMENT
        for folder in entry_files.FOLDERS:
            paths = (f"{folder}/{one}" for one in read.names(folder))
            yield from filter(entry_files.is_entry, paths)
