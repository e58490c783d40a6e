"""Real programs in a folder of the test, run as the driver's programs are."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from laneway.core.printed import LIMIT
from laneway.core.programs import GRUB_MKCONFIG, MODPROBE, NVIDIA_SMI, SRIOV_MANAGE, SYSTEMCTL
from laneway.host.executors.local import LocalExecutor
from laneway.host.port import CommandMissingError

Program = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Makes a shell script and tells its path."""

    def make(script: str) -> str:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Wait until something outside of this process has happened."""

    async def wait(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.005)

    return wait


def runner(path: str, **more: Any) -> LocalExecutor:
    return LocalExecutor(programs={path}, **more)


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def let_go(fifo: Path) -> None:
    """Let the reader of the pipe go on, now or when it comes to it; also if there is none."""
    with open(os.open(fifo, os.O_RDWR | os.O_NONBLOCK), "w") as gate:
        gate.write("go\n")


async def test_a_program_gets_its_arguments_as_they_are(program: Program) -> None:
    path = program('for one in "$@"; do echo "<$one>"; done')

    done = await runner(path).run([path, "a b", "$(id)", "", "*;|&"], 10)

    assert done == (0, "<a b>\n<$(id)>\n<>\n<*;|&>\n")


async def test_standard_output_comes_first_and_the_status_is_kept(program: Program) -> None:
    path = program("echo first >&2; printf out; echo last >&2; exit 19")

    assert await runner(path).run([path], 10) == (19, "out\nfirst\nlast\n")


async def test_an_end_by_a_signal_is_reported_as_by_a_shell(program: Program) -> None:
    path = program("kill -9 $$")

    assert (await runner(path).run([path], 10)).status == 128 + signal.SIGKILL


async def test_nothing_of_our_environment_reaches_a_program(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    path = program("/usr/bin/env; pwd")

    done = await runner(path).run([path], 10)

    names = [line.partition("=")[0] for line in done.output.splitlines()]
    assert set(names) <= {"PATH", "LC_ALL", "PWD", "SHLVL", "_", "/", "OLDPWD"}
    assert "LC_ALL=C" in done.output
    assert "PATH=/usr/sbin:/usr/bin:/sbin:/bin" in done.output
    assert done.output.endswith("\n/\n"), "the folder is the root"


@pytest.fixture
def open_input() -> Iterator[None]:
    """An input of this process that does not end, as a terminal's does not."""
    before = os.dup(0)
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    yield
    os.dup2(before, 0)
    for descriptor in (before, reader, writer):
        os.close(descriptor)


async def test_the_input_of_a_program_is_empty(program: Program, open_input: None) -> None:
    path = program("cat; echo ended")

    assert await runner(path).run([path], 10) == (0, "ended\n")


async def test_a_program_that_takes_too_long_is_asked_to_end(
    program: Program, tmp_path: Path
) -> None:
    path = program(f"trap 'echo asked > {tmp_path}/told; exit' TERM\nwhile :; do sleep 0.01; done")

    with pytest.raises(TimeoutError, match=r"program did not end within 0\.2 s and was stopped"):
        await runner(path).run([path], 0.2)

    assert (tmp_path / "told").read_text() == "asked\n"


async def test_a_program_that_will_not_end_is_killed_with_its_children(
    program: Program, tmp_path: Path, until: Callable[..., Awaitable[None]]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    path = program(
        f"trap '' TERM\n(trap '' TERM; cat {fifo}) &\n"
        f"echo $$ > {tmp_path}/parent; echo $! > {tmp_path}/child\nwhile :; do sleep 9; done"
    )

    with pytest.raises(TimeoutError):
        await runner(path, grace=0.2).run([path], 0.5)

    for name in ("parent", "child"):
        pid = int((tmp_path / name).read_text())
        await until(lambda pid=pid: not is_running(pid))


async def test_cancelling_ends_the_program(
    program: Program, tmp_path: Path, until: Callable[..., Awaitable[None]]
) -> None:
    path = program(f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 99")
    task = asyncio.create_task(runner(path).run([path], 60))
    await until((tmp_path / "pid").exists)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    pid = int((tmp_path / "pid").read_text())
    assert not is_there(pid), "it has ended and was reaped"


@pytest.fixture
def stuck(tmp_path: Path, program: Program) -> Iterator[tuple[str, Path]]:
    """A program that ends only when the test lets it go, and where it writes its process id."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    pid = tmp_path / "pid"
    yield program(f"echo $$ > {pid}; read line < {fifo}"), pid
    let_go(fifo)


async def test_what_the_kernel_does_not_end_is_left_behind_and_reaped_later(
    stuck: tuple[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    until: Callable[..., Awaitable[None]],
) -> None:
    """A process in uninterruptible sleep takes no signal; here none is delivered."""
    path, pid = stuck
    monkeypatch.setattr(os, "killpg", lambda *_: None)

    with pytest.raises(TimeoutError, match="cannot be stopped, as it waits in the kernel"):
        await runner(path, grace=0.05).run([path], 0.5)

    left = int(pid.read_text())
    assert is_running(left)
    assert f"process group {left} cannot be ended and is left behind" in caplog.text
    let_go(tmp_path / "fifo")
    await until(lambda: not is_there(left))


async def test_what_a_program_has_started_and_the_kernel_does_not_end_is_reported_as_well(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo, real = tmp_path / "fifo", os.killpg
    os.mkfifo(fifo)
    path = program(f"(trap '' TERM; read line < {fifo}) &\nwait")
    monkeypatch.setattr(
        os, "killpg", lambda group, number: number == signal.SIGKILL or real(group, number)
    )

    with pytest.raises(TimeoutError, match="cannot be stopped, as it waits in the kernel"):
        await runner(path, grace=0.05).run([path], 0.5)
    let_go(fifo)


async def test_a_zombie_is_not_waited_for(
    program: Program,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    until: Callable[..., Awaitable[None]],
) -> None:
    pid, helper = tmp_path / "pid", tmp_path / "helper.py"
    helper.write_text(
        "import os, time\n"
        "os.fork() or os._exit(0)\n"  # stays in the program's group
        f"os.setsid()\nos.symlink(str(os.getpid()), '{pid}')\ntime.sleep(60)\n"
    )
    path = program(f"{sys.executable} {helper} &\nexec sleep 60")
    task = asyncio.create_task(runner(path, grace=0.5).run([path], 60))
    await until(pid.is_symlink)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    os.kill(int(pid.readlink().name), signal.SIGKILL)
    assert "left behind" not in caplog.text


async def test_output_is_bounded_and_says_so(program: Program) -> None:
    path = program("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1")

    status, output = await runner(path).run([path], 30)

    first, rest = output.split("\n", 1)
    assert status == 1
    assert first == f"[the first {3_000_009 - LIMIT} bytes are left out]"
    assert rest.endswith("xxx\nthe end\n")
    assert len(rest) == LIMIT


async def test_a_child_that_keeps_printing_delays_nothing(program: Program, tmp_path: Path) -> None:
    path = program(f"yes & echo $! > {tmp_path}/pid; exit 3")
    try:
        status, _ = await runner(path).run([path], 20)
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    assert status == 3


async def test_output_cannot_write_to_a_terminal(program: Program) -> None:
    coloured = r"\033[31mred\033[0m\tb\000\007ell\r\n"
    hidden = r"\033]0;title\007next\177\302\205\377\342\200\256."
    path = program(f"printf '{coloured}{hidden}'")

    done = await runner(path).run([path], 10)

    assert done.output == "red\tbell\nnext\ufffd."


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    path = f"{tmp_path}/absent"

    assert not await runner(path).has(path)
    with pytest.raises(CommandMissingError) as caught:
        await runner(path).run([path], 10)
    assert caught.value.errno == errno.ENOENT
    assert caught.value.strerror == f"{path} is not installed on this node"


async def test_a_name_is_looked_for_in_the_systems_folders() -> None:
    executor = LocalExecutor(programs={"echo", "no-such-program"})

    assert await executor.has("echo")
    assert await executor.run(["echo", "here"], 10) == (0, "here\n")
    with pytest.raises(CommandMissingError, match=r"no-such-program is not .* /usr/bin,"):
        await executor.run(["no-such-program"], 10)


@pytest.mark.parametrize("kind", ["folder", "not executable", "dangling link"])
async def test_what_cannot_be_run_is_no_program(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    match kind:
        case "folder":
            path.mkdir()
        case "not executable":
            path.write_text("#!/bin/sh\n")
        case _:
            path.symlink_to(tmp_path / "absent")

    assert not await runner(str(path)).has(str(path))


async def test_a_broken_program_is_an_error_in_words(tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF nothing")
    path.chmod(0o755)

    with pytest.raises(OSError, match="program cannot be started: Exec format error"):
        await runner(str(path)).run([str(path)], 10)


@pytest.mark.parametrize("argv", [[], ["sh", "-c", "id"], ["/bin/sh"], ["../nvidia-smi"], [""]])
async def test_nothing_but_the_drivers_programs_is_run(argv: list[str]) -> None:
    with pytest.raises(PermissionError, match="not a program that Laneway runs"):
        await LocalExecutor().run(argv, 10)


@pytest.mark.parametrize("argument", ["a\0b", "two\nlines", "\x1b[1m", "\ud800"])
async def test_an_argument_is_a_plain_word(argument: str) -> None:
    with pytest.raises(OSError, match="cannot be an argument of modprobe"):
        await LocalExecutor().run([MODPROBE, argument], 10)


async def test_the_drivers_programs_are_known() -> None:
    for program in (SRIOV_MANAGE, NVIDIA_SMI, MODPROBE):
        assert not await LocalExecutor("/nowhere").has(program)


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Path, str]:
    """A folder that can be a root: a shell and what it needs; and the shell's path."""
    shell = shutil.which("sh", path="/bin:/usr/bin")
    assert shell
    needed = subprocess.run(["ldd", shell], capture_output=True, text=True, check=True).stdout
    files = [word for word in needed.split() if word.startswith("/")]
    for file in [shell, *files]:
        (tmp_path / file[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tmp_path / file[1:])
    return tmp_path, shell


@pytest.mark.skipif(os.geteuid() != 0, reason="another root needs the right to change it")
async def test_below_another_root_a_program_sees_that_root(tree: tuple[Path, str]) -> None:
    root, shell = tree
    (root / "usr/lib/nvidia").mkdir(parents=True)
    script = root / "usr/lib/nvidia/real"
    script.write_text(f"#!{shell}\nfor one in /*; do echo $one; done; echo $0 $1\n")
    script.chmod(0o755)
    (root / SRIOV_MANAGE[1:]).symlink_to("/usr/lib/nvidia/real")

    done = await LocalExecutor(str(root)).run([SRIOV_MANAGE, "-e"], 10)

    assert done.status == 0, done.output
    assert done.output.endswith(f"{SRIOV_MANAGE} -e\n")
    assert "/proc" not in done.output


@pytest.mark.skipif(os.geteuid() != 0, reason="another root needs the right to change it")
async def test_a_reboot_is_of_the_node_and_not_of_a_folder(tree: tuple[Path, str]) -> None:
    """Systemctl succeeds without doing anything in what it takes for a chroot."""
    root, shell = tree
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    script = root / "usr/bin" / SYSTEMCTL
    script.write_text(f'#!{shell}\necho "$1 $SYSTEMD_IGNORE_CHROOT"\n')
    script.chmod(0o755)

    done = await LocalExecutor(str(root)).run([SYSTEMCTL, "reboot"], 10)

    assert done.output == "reboot 1\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="another root needs the right to change it")
@pytest.mark.parametrize(
    ("locale", "seen"), [('LANG="de_DE.UTF-8"\n', "de_DE.UTF-8,"), ("LANG=$(id)\n", ",C")]
)
async def test_what_makes_menus_does_so_in_the_language_of_the_node(
    tree: tuple[Path, str], locale: str, seen: str
) -> None:
    """The entry that boots by default may be named by its title."""
    root, shell = tree
    for folder in ("usr/sbin", "etc/default"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/default/locale").write_text(f"# a comment\n{locale}")
    script = root / "usr/sbin" / GRUB_MKCONFIG
    script.write_text(f'#!{shell}\necho "$LANG,$LC_ALL"\n')
    script.chmod(0o755)

    done = await LocalExecutor(str(root)).run([GRUB_MKCONFIG], 10)

    assert done.output == f"{seen}\n"
