"""Files that decide what the node boots next.

Where a program makes the loader's configuration, it makes another file first. That one is judged
as what is booted is judged, and only a whole one takes the place of the old, in one move. As long
as the other file exists the step is half way, and is done again from its beginning; where it fails,
everything is put back.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import cast

from laneway.core.plan import SetBootArguments, WriteConfiguration
from laneway.core.preparation.facts import LoaderName
from laneway.core.preparation.loaders import LOADERS
from laneway.core.preparation.loaders.loader import Generator, Loader
from laneway.core.preparation.modules import OWN_FILES
from laneway.host.boot.loader import Reader, absent, read_loader
from laneway.host.command import run
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.operation import Limits, Operation, Seen, State

_MAKING = "# Laneway is having this file made. It is not what is booted.\n"


async def configuration_state(hardware: Hardware, step: WriteConfiguration) -> Seen:
    _check(step, step.path in OWN_FILES)
    return _compared(hardware, step)


async def write_configuration(
    hardware: Hardware, step: WriteConfiguration, _limits: Limits
) -> None:
    _check(step, step.path in OWN_FILES)
    hardware.host.replace(step.path, step.after)


async def arguments_state(hardware: Hardware, step: SetBootArguments) -> Seen:
    loader = _loader(step)
    seen = _compared(hardware, step)
    generator = loader.generator
    if generator is None or seen.state is State.OTHER:
        return seen
    if hardware.host.exists(generator.candidate):
        return Seen(State.BEFORE, "half way")
    if seen.state is State.AFTER:
        files = Reader(hardware.host).texts((step.path, generator.config))
        if _lacking(loader, step, files):
            return Seen(State.BEFORE, f"not in {generator.config}")
    return seen


async def set_arguments(hardware: Hardware, step: SetBootArguments, limits: Limits) -> None:
    loader = _loader(step)
    if loader.generator is not None:
        await _generate(hardware, step, loader, loader.generator, limits)
        return
    if step.arguments:
        _judge(hardware, loader, step, _files_with(hardware, {step.path: step.after}))
    hardware.host.replace(step.path, step.after)


async def _generate(
    hardware: Hardware,
    step: SetBootArguments,
    loader: Loader,
    generator: Generator,
    limits: Limits,
) -> None:
    host = hardware.host
    old = Reader(host).text(generator.config)
    host.replace(generator.candidate, _MAKING)
    try:
        host.replace(step.path, step.after)
        ended = await run(
            hardware.executor,
            (generator.program, "-o", generator.candidate),
            limits.command_seconds,
        )
        if ended.status != 0:
            raise ended.error()
        made = Reader(host).text(generator.candidate)
        files = {step.path: step.after, generator.config: made}
        _judge(hardware, loader, step, _files_with(hardware, files))
        if made != old:
            host.replace(generator.config, made)
        host.replace(generator.candidate, None)
    except OSError:
        host.replace(step.path, step.before)
        if old is not None and Reader(host).text(generator.config) != old:
            host.replace(generator.config, old)
        for leftover in (f"{generator.candidate}.new", generator.candidate):
            host.replace(leftover, None)
        raise


def _judge(
    hardware: Hardware, loader: Loader, step: SetBootArguments, files: Mapping[str, str]
) -> None:
    """Raise OSError where the node would not boot, or not with the words, from these files."""
    missing = [f"{path} is not there" for path in absent(hardware.host, loader, files)]
    problems = [*loader.damage(files), *missing]
    if lacking := _lacking(loader, step, files):
        problems.append(f"the kernel command line would not have {lacking}")
    if problems:
        raise OSError(errno.EIO, f"the node would not boot as planned: {'; '.join(problems)}")


def _lacking(loader: Loader, step: SetBootArguments, files: Mapping[str, str]) -> str:
    """The words of a step that an entry lacks which gets them from the step's file."""
    entries = loader.entries(files)
    if loader.generator is None:
        entries = tuple(entry for entry in entries if entry.place == step.path)
    elif not entries:
        return " ".join(step.arguments)
    return " ".join(w for w in step.arguments if any(w not in one.words for one in entries))


def _files_with(hardware: Hardware, changed: Mapping[str, str | None]) -> dict[str, str]:
    """The loader's files as they are, but for some."""
    files = {**read_loader(Reader(hardware.host)).files, **changed}
    return {path: text for path, text in files.items() if text is not None}


def _compared(hardware: Hardware, step: SetBootArguments | WriteConfiguration) -> Seen:
    try:
        text: str | None = hardware.host.read(step.path).decode("utf-8", "replace")
    except FileNotFoundError:
        text = None
    if text == step.after:
        return Seen(State.AFTER, "as planned")
    return Seen(*((State.BEFORE, "as before") if text == step.before else (State.OTHER, "changed")))


def _loader(step: SetBootArguments) -> Loader:
    loader = LOADERS.get(cast("LoaderName", step.loader))
    _check(step, loader is not None and loader.allowed(step.path))
    return cast("Loader", loader)


def _check(step: SetBootArguments | WriteConfiguration, allowed: object) -> None:
    """A plan is read from a file: no path but those of the table is written."""
    if not allowed:
        raise OSError(errno.EPERM, f"{step.path[:100]!r} is not a file that Laneway writes")


OPERATIONS: dict[type, Operation] = {
    SetBootArguments: Operation(arguments_state, set_arguments),
    WriteConfiguration: Operation(configuration_state, write_configuration),
}
