"""Carry out the Containerfile without an engine, and start what it makes.

    unshare --mount --propagation private python tools/image/check.py CACHE

Needs root and a mount namespace of its own, whose end undoes all of it. Each stage gets a root of
its own: this machine's system, over which the stage's changes are laid (overlayfs), and the files
that the stage copies. So the lines of the Containerfile run with the very paths of the image, and
see nothing of this checkout but what they copied. What they make is then started as Kubernetes
would: read-only, under the user that the recipe names, without any capability.

Left to an engine: the base image, for which this machine's Python stands, and steps that need a
shell, which install Debian packages.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from recipe import Stage, Step, read

CHECKOUT = Path(__file__).resolve().parents[2]
PASSED_ON = ("PIP_", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
SECONDS = 60.0
SPARE = "/spare"
"""A folder for what the steps need only while they run."""
CHROOT = "/usr/sbin/chroot"

EVERYTHING = """
import importlib, pkgutil, sys, sysconfig
import laneway
names = ["laneway", *(m.name for m in pkgutil.walk_packages(laneway.__path__, "laneway.", str))]
for name in names:
    try:
        name == "laneway.__main__" or importlib.import_module(name)
    except Exception as error:
        if getattr(error, "name", None) != "kapilite":
            print(name, "cannot be imported:", error)
stdlib = sysconfig.get_path("stdlib")
for name, module in sorted(sys.modules.items()):
    spec = getattr(module, "__spec__", None)
    if spec is None or not spec.has_location or name == "__main__":
        continue
    if not spec.origin.startswith((sys.prefix + "/", stdlib + "/")):
        print(name, "comes from outside of the image:", spec.origin)
    elif spec.origin.endswith(".py"):
        try:
            flags = open(spec.cached, "rb").read(8)[4:]
        except OSError:
            print(name, "is not compiled")
        else:
            if flags != bytes([1, 0, 0, 0]):
                print(name, "has bytecode that is checked against its source")
print(len(names), "modules")
"""
"""Import all of Laneway but what needs the API server of `laneway up`, which the image lacks; a
line for whatever is not as it should be, and the number of modules."""


class CheckError(Exception):
    """What is wrong with the image."""


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def say(line: str) -> None:
    print(f"-- {line}", flush=True)


class Root:
    """The file system of one stage, on `folder`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "root"
        self.path.mkdir(parents=True)
        self.path.chmod(0o755)
        for name in ("bin", "sbin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                (self.path / name).symlink_to(os.readlink(f"/{name}"))
        for number, system in enumerate(_systems()):
            below, work = folder / f"changed-{number}", folder / f"work-{number}"
            below.mkdir()
            work.mkdir()
            where = self.at(system)
            where.mkdir(parents=True)
            options = f"lowerdir={system},upperdir={below},workdir={work}"
            mount("-t", "overlay", "-o", options, "overlay", where)
        for name in ("etc", "dev", "proc"):
            self.bind(f"/{name}", f"/{name}", read_only=name == "etc")
        self.at(SPARE).mkdir(exist_ok=True)

    def at(self, path: str | os.PathLike[str]) -> Path:
        return self.path / str(path).lstrip("/")

    def bind(self, source: str | Path, path: str, *, read_only: bool) -> None:
        self.at(path).mkdir(parents=True, exist_ok=True)
        mount("--rbind", source, self.at(path))
        if read_only:
            mount("-o", "remount,bind,ro", self.at(path))


def _systems() -> list[str]:
    """Where this machine's programs and its Python are."""
    python = os.path.realpath(sys.base_prefix)
    return ["/usr"] if python == "/usr" or python.startswith("/usr/") else ["/usr", python]


def _sources(step: Step) -> Iterator[str]:
    """What a COPY takes from the checkout; refuses what .containerignore leaves out."""
    rules = [line for line in (CHECKOUT / ".containerignore").read_text().splitlines() if line]
    kept = [rule[1:] for rule in rules if rule.startswith("!")]
    for source in step.words[:-1]:
        if not any(source == rule or source.startswith(f"{rule}/") for rule in kept):
            raise CheckError(f"Containerfile copies {source}, which .containerignore leaves out")
        yield source


def _ignored(_folder: str, names: list[str]) -> list[str]:
    return fnmatch.filter(names, "__pycache__")


def copy(step: Step, stage: Stage, root: Root, others: Mapping[str, Root]) -> None:
    target = step.words[-1]
    where = root.at(os.path.join(stage.workdir, target))
    if "from" in step.options:
        [source] = step.words[:-1]
        shutil.copytree(others[step.options["from"]].at(source), where, symlinks=True)
        return
    for source in _sources(step):
        path = CHECKOUT / source
        if path.is_dir():
            shutil.copytree(path, where, ignore=_ignored, dirs_exist_ok=True)
        else:
            into = where / path.name if target.endswith("/") else where
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, into)


def run(step: Step, stage: Stage, root: Root, others: Mapping[str, Root], cache: Path) -> None:
    if len(step.words) == 1:
        say(f"left to an engine: {step.words[0]}")
        return
    mounted = dict(pair.split("=", 1) for pair in step.options.get("mount", "").split(",") if pair)
    if mounted:
        source = others[mounted["from"]].at(mounted["source"])
        root.bind(source, mounted["target"], read_only=True)
    root.bind(cache, f"{SPARE}/pip", read_only=False)
    passed = {k: v for k, v in os.environ.items() if k.upper().startswith(PASSED_ON)}
    python = os.path.realpath(sys.base_prefix)  # in the place of the image's own
    passed |= {"PATH": f"{python}/bin:/usr/bin:/bin", "HOME": SPARE, "TMPDIR": SPARE}
    passed |= {"PIP_CACHE_DIR": f"{SPARE}/pip"}
    done = subprocess.run(
        [CHROOT, str(root.path), "/usr/bin/env", "-C", stage.workdir, *step.words],
        env=passed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise CheckError(f"{' '.join(step.words)} ended with {done.returncode}: {done.stdout}")
    for path in (f"{SPARE}/pip", *([mounted["target"]] if mounted else [])):
        subprocess.run(["umount", str(root.at(path))], check=True)
        os.removedirs(root.at(path))


class Image:
    """The last stage as containers see it: read-only, nobody, no capabilities."""

    def __init__(self, stage: Stage, root: Root, data: Path) -> None:
        self.entrypoint = stage.entrypoint
        self._environment = stage.environment
        user, _, group = stage.user.partition(":")
        shutil.rmtree(root.at(SPARE), ignore_errors=True)
        root.bind(data, "/data", read_only=False)
        os.chown(data, int(user), int(group))
        for system in _systems():
            mount("-o", "remount,bind,ro", root.at(system))
        # the root itself becomes a mount, which can then be read-only
        mount("--rbind", root.path, root.path)
        mount("-o", "remount,bind,ro", root.path)
        self._as_user = [CHROOT, str(root.path)]
        self._as_user += ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]
        self._as_user += ["--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The entry point with these arguments."""
        return self.program(*self.entrypoint, *arguments)

    def program(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._as_user, *command],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self, *arguments: str) -> str:
        return _ended(self.start(*arguments), arguments)


def _ended(process: subprocess.Popen[str], arguments: tuple[str, ...]) -> str:
    said, _ = process.communicate(timeout=SECONDS)
    if process.returncode != 0:
        raise CheckError(f"{' '.join(arguments)} ended with {process.returncode}: {said}")
    return said


@contextmanager
def running(process: subprocess.Popen[str], role: str, *, until: str) -> Iterator[str]:
    """A role that runs, with the line that says it is ready; SIGTERM must end it cleanly."""
    said = []
    try:
        for line in process.stdout or ():
            said.append(line)
            if until in line:
                break
        else:
            raise CheckError(f"laneway {role} ended: {''.join(said)}")
        yield said[-1]
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=SECONDS)
        if process.returncode != 0:
            raise CheckError(f"laneway {role} ended with {process.returncode}: {rest}")
    finally:
        process.kill()
        process.wait()


def ready(port: int) -> None:
    """Wait until a role says on its health port that it is ready."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise CheckError(f"not ready after {SECONDS:g} s: {error}") from None
            time.sleep(0.1)  # health is a page to be requested; there is nothing to wait on


def cluster(data: Path) -> subprocess.Popen[str]:
    """What stands for a cluster: `laneway up` of this checkout; the image has no API server."""
    simulated = ("--no-local", "--simulate=a2", "--port=0")
    return subprocess.Popen(
        [sys.executable, "-m", "laneway", "up", f"--data-dir={data}/up", *simulated],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def hand_over(folder: Path, to: Path) -> None:
    """Let whom `to` belongs to read what root has made."""
    owner = to.stat()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def start(image: Image, data: Path) -> None:
    """What people and Kubernetes start."""
    say(image.output("--version").strip())
    for role in ("agent", "manager", "webhook"):
        image.output(role, "--help")
    if "kind: DaemonSet" not in image.output("manifests"):
        raise CheckError("laneway manifests does not print what it carries")
    with running(cluster(data), "up", until="Stop with Ctrl-C."):
        hand_over(data / "up", data)
        served = "/data/up/pki/server"
        tls = (f"--tls-cert-file={served}.crt", f"--tls-key-file={served}.key")
        own = {"manager": (), "webhook": (*tls, "--address=127.0.0.1:0")}
        shared = ("--kubeconfig=/data/up/kubeconfig", "--health-address=127.0.0.1:0")
        for role, arguments in own.items():
            process = image.start(role, *shared, *arguments)
            with running(process, role, until="serving health") as line:
                ready(int(line.split("port ")[1].split()[0].rstrip('",}')))
                say(f"laneway {role} is ready")
    interpreter = f"{os.path.dirname(image.entrypoint[0])}/python"
    found = _ended(image.program(interpreter, "-c", EVERYTHING), ("importing everything",))
    wrong, _, count = found.strip().rpartition("\n")
    if wrong:
        raise CheckError(wrong)
    say(f"{count}, all from the image and compiled")


def check_toolkit(image: Image) -> None:
    """The recipe of the driver toolkit: Laneway's image, as root, with what its program needs."""
    (stage,) = read((CHECKOUT / "Containerfile.driver-toolkit").read_text())
    if (stage.user, stage.entrypoint) != ("0:0", image.entrypoint):
        raise CheckError("the driver toolkit does not run Laneway as root")
    installed = {word for step in stage.steps for word in step.words[0].split()}
    if missing := {"gcc", "kmod", "libc6-dev", "libelf1", "make"} - installed:
        raise CheckError(f"the driver toolkit lacks {', '.join(sorted(missing))}")
    process = image.start("driver-toolkit", "run")
    said, _ = process.communicate(timeout=SECONDS)
    if process.returncode != 1 or "SettingsInvalid" not in said:
        raise CheckError(f"laneway driver-toolkit run ended with {process.returncode}: {said}")
    say("laneway driver-toolkit refuses to run without a package")


def main(cache: Path) -> int:
    stages = read((CHECKOUT / "Containerfile").read_text())
    roots: dict[str, Root] = {}
    scratch = Path(tempfile.mkdtemp())
    scratch.chmod(0o755)
    try:
        for number, stage in enumerate(stages):
            root = roots[stage.name or "last"] = Root(scratch / str(number))
            root.at(stage.workdir).mkdir(parents=True, exist_ok=True)
            for step in stage.steps:
                if step.name == "COPY":
                    copy(step, stage, root, roots)
                else:
                    run(step, stage, root, roots, cache)
            say(f"stage {stage.name or 'last'} is made")
        data = scratch / "data"
        data.mkdir()
        image = Image(stages[-1], roots["last"], data)
        start(image, data)
        check_toolkit(image)
    except (CheckError, subprocess.CalledProcessError) as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    finally:
        subprocess.run(
            ["umount", "-R", "-l", str(scratch / "last")], check=False, capture_output=True
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
