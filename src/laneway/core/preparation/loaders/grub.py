"""GRUB whose configuration is made by grub-mkconfig, as on Debian and Ubuntu, or as on SUSE.

On Debian files of `/etc/default/grub.d` are read after `/etc/default/grub`, so Laneway has one of
its own there. Elsewhere a line of its own comes last in `/etc/default/grub`. Both add to
GRUB_CMDLINE_LINUX whatever that holds by then, and an administrator's files stay as they are.

grub-mkconfig writes over the configuration in place, so that a power failure could leave half of
one. So it is made as another file first, judged, and only then put in place as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from laneway.core.plan import SetBootArguments
from laneway.core.preparation.arguments import without
from laneway.core.preparation.facts import LoaderName
from laneway.core.preparation.loaders.loader import ABOUT, Entry, Files, Generator, Loader
from laneway.core.programs import GRUB2_MKCONFIG, GRUB_MKCONFIG

DEFAULTS = "/etc/default/grub"
DROP_INS = "/etc/default/grub.d"
DROP_IN = f"{DROP_INS}/90-laneway.cfg"
"""After those of cloud images (`50-cloudimg-settings.cfg`), which set the variable again."""

DEBIAN_CONFIG = "/boot/grub/grub.cfg"
SUSE_CONFIG = "/boot/grub2/grub.cfg"

_BEGIN = "### BEGIN "
_END = "### END "
_OWN = ("10_linux", "20_linux_xen", "10_linux_zfs")
"""Scripts of `/etc/grub.d` whose entries take GRUB_CMDLINE_LINUX. Those of other systems and an
administrator's own do not."""
_RESCUE = frozenset(("single", "recovery"))
_LINE = re.compile(r'GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX ([^"$`\\]+)"  # Laneway')
_KERNELS = ("linux", "linux16", "linuxefi")
_INITRDS = ("initrd", "initrd16", "initrdefi")


def is_drop_in(name: str) -> bool:
    """Whether grub-mkconfig reads a file of `DROP_INS`: no backup of an editor or a package."""
    return name.endswith(".cfg") and not name.startswith(".")


def _line(words: Sequence[str]) -> str:
    return f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {" ".join(words)}"  # Laneway\n'


def _written(text: str) -> tuple[str, ...]:
    """The words of Laneway's line."""
    found = _LINE.search(text)
    return tuple(found[1].split()) if found else ()


def _drop_in(_text: str | None, words: Sequence[str]) -> str | None:
    return ABOUT + _line(words) if words else None


def _appended(text: str | None, words: Sequence[str]) -> str:
    """`/etc/default/grub` with Laneway's line last, or without it."""
    ended = not text or text.endswith("\n")
    lines = [f"{line}\n" for line in (text or "").splitlines() if not _LINE.match(line)]
    content = "".join((*lines, _line(words)) if words else lines)
    return content if ended else content.removesuffix("\n")


def _parse(config: str, place: str) -> Iterator[tuple[str, Entry]]:
    """Every entry of Linux, each with the script that made it."""
    script, kernel = "", ""
    words: tuple[str, ...] = ()
    for line in config.splitlines():
        if line.startswith(_BEGIN):
            script = line.removeprefix(_BEGIN).removesuffix(" ###").rpartition("/")[2]
        found = line.split()
        command = found[0] if found else ""
        if command in _KERNELS and len(found) > 1:
            if kernel:
                yield script, Entry(place, words, kernel=kernel)
            kernel, words = found[1].strip("\"'"), tuple(found[2:])
        elif command in _INITRDS and kernel:
            yield (
                script,
                Entry(
                    place,
                    words,
                    kernel=kernel,
                    initrds=tuple(one.strip("\"'") for one in found[1:]),
                ),
            )
            kernel = ""
        elif command == "}" and kernel:
            yield script, Entry(place, words, kernel=kernel)
            kernel = ""


def _boots(config: str, files: Files) -> tuple[Entry, ...]:
    found = _parse(files.get(config, ""), config)
    return tuple(entry for script, entry in found if script in _OWN)


def _entries(config: str, source: str, files: Files) -> tuple[Entry, ...]:
    ours = _written(files.get(source, ""))
    return tuple(
        entry._replace(ours=_present(entry.words, ours))
        for entry in _boots(config, files)
        if not _RESCUE & set(entry.words)
    )


def _present(words: Sequence[str], ours: Sequence[str]) -> tuple[str, ...]:
    left = without(words, ours)
    return tuple(word for word in ours if words.count(word) > left.count(word))


def _steps(
    name: LoaderName, generator: Generator, files: Files, groups: Sequence[str]
) -> tuple[SetBootArguments, ...]:
    words = " ".join(groups).split()
    source, write = _SOURCES[name]
    before = files.get(source)
    after = write(before, words)
    had = _written(before or "")
    entries = _entries(generator.config, source, files)
    current = all(set(words) <= set(entry.words) for entry in entries)
    if before == after and current and generator.candidate not in files:
        return ()
    return (SetBootArguments(name, source, before, after, tuple(words), had),)


def _damage(config: str, files: Files) -> Iterator[str]:
    text = files.get(config)
    if text is None:
        yield f"{config} is not there"
        return
    begun = [line[len(_BEGIN) :] for line in text.splitlines() if line.startswith(_BEGIN)]
    ended = [line[len(_END) :] for line in text.splitlines() if line.startswith(_END)]
    if not begun or begun != ended or not text.endswith("\n"):
        yield f"{config} is cut off: a part that begins does not end"
    elif not _boots(config, files):
        yield f"{config} has no entry that boots this system"


def _loader(name: LoaderName, program: str, config: str, source: str) -> Loader:
    generator = Generator(program, config, f"{config}.laneway")
    return Loader(
        entries=partial(_entries, config, source),
        boots=partial(_boots, config),
        steps=partial(_steps, name, generator),
        damage=partial(_damage, config),
        allowed=lambda path: path == source,
        sources=lambda path: path == DEFAULTS or path.startswith(f"{DROP_INS}/"),
        generator=generator,
    )


_SOURCES = {"grub": (DROP_IN, _drop_in), "grub2": (DEFAULTS, _appended)}

DEBIAN = _loader("grub", GRUB_MKCONFIG, DEBIAN_CONFIG, DROP_IN)
SUSE = _loader("grub2", GRUB2_MKCONFIG, SUSE_CONFIG, DEFAULTS)
