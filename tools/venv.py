#!/usr/bin/env python3
"""Make a virtual environment that holds exactly what is pinned, with this checkout's packages.

    venv.py DIR REQUIREMENTS... [--unless-on-path PROGRAM REQUIREMENTS] [--packages FOLDER...]

Does nothing while neither the pins, the packages' metadata nor the interpreter have changed. Every
download is verified against a hash, the build backend included. It is run by the system's
`python3`, whatever that is, so it uses no syntax or module that an old one lacks: what is wrong
with that interpreter is said in one line rather than shown as a traceback.
"""

import hashlib
import os
import shutil
import subprocess
import sys

PACKAGES = ("packages/kubebasics", "packages/kapilite", ".")
MARKER = "laneway-inputs"
INCOMPLETE = "incomplete\n"


def fail(message):
    """End with one line that says what is wrong and what to do."""
    sys.stderr.write("make: " + message + "\n")
    sys.exit(1)


def check_interpreter():
    """Refuse an interpreter that cannot hold Laneway, and say which one can."""
    found = "%d.%d.%d" % sys.version_info[:3]
    if sys.version_info < (3, 11):
        fail(
            "Laneway needs Python 3.11 or newer, and %s is %s: install a newer one and run"
            " 'make PYTHON=python3.12 ...' with its name" % (sys.executable, found)
        )
    try:
        import ensurepip  # noqa: F401, PLC0415  absent from Debian's plain python3
        import venv  # noqa: F401, PLC0415 - whether it is there
    except ImportError:
        fail(
            "this Python %s cannot make virtual environments: install its venv package"
            " (Debian and Ubuntu: apt-get install python3-venv)" % found
        )


def on_path(program, ignored):
    """Whether PATH has the program somewhere else than in the environment itself."""
    ignored = os.path.realpath(ignored)
    folders = os.environ.get("PATH", "").split(os.pathsep)
    elsewhere = [folder for folder in folders if os.path.realpath(folder) != ignored]
    return shutil.which(program, path=os.pathsep.join(elsewhere)) is not None


def inputs(requirements, packages):
    """A digest of everything that decides the content of the environment."""
    digest = hashlib.sha256()
    digest.update((sys.version + sys.base_prefix + os.getcwd()).encode())
    metadata = [os.path.join(folder, "pyproject.toml") for folder in packages]
    for name in [*metadata, "tools/venv.py", *requirements]:
        with open(name, "rb") as stream:
            digest.update(name.encode() + stream.read())
    return digest.hexdigest() + "\n"


def write(path, text):
    with open(path, "w") as stream:
        stream.write(text)


def run(arguments):
    """Run one command; its own output has said why, should it fail."""
    if subprocess.call(arguments, env=environment()) != 0:
        failed(arguments)


def environment():
    """That of the caller, without settings that send packages elsewhere than into the folder."""
    found = dict(os.environ)
    for name in ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_QUIET", "PYTHONHOME", "PYTHONPATH"):
        found.pop(name, None)
    found["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    return found


def failed(arguments):
    fail("'%s' failed, see above; run the same make again to retry" % " ".join(arguments[1:]))


def install(arguments, total):
    """Run pip, and say at a terminal which of so many packages it is at.

    What it prints is shown when it fails.
    """
    process = subprocess.Popen(
        arguments,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
    )
    lines, seen = [], set()
    for line in process.stdout:
        lines.append(line)
        if line.startswith(("Collecting ", "Processing ")):
            # `aiohttp==3.9.1`, or a file of that name
            name = line.split()[1].rpartition("/")[2].split("==")[0].partition("-")[0]
            seen.add(name.lower().replace("_", "-"))
            progress("%d of %d packages: %s" % (len(seen), total, name))
        elif line.startswith("Installing collected packages"):
            progress("installing %d packages" % total)
    progress("")
    if process.wait() != 0:
        sys.stderr.write("".join(lines))
        failed(arguments)


def progress(text):
    """Replace what the last line of a terminal says; elsewhere nothing is printed."""
    if sys.stdout.isatty():
        sys.stdout.write("\r\033[K" + text)
        sys.stdout.flush()


def pins(requirements):
    """How many packages are pinned."""
    count = 0
    for name in requirements:
        with open(name) as stream:
            count += sum("==" in line and not line.startswith((" ", "#")) for line in stream)
    return count


def make(folder, requirements, packages, wanted):
    marker = os.path.join(folder, MARKER)
    if os.path.lexists(folder) and not os.path.exists(marker):
        fail(
            "%s was not made by this Makefile: move it away, then run the same make again" % folder
        )
    total = pins(requirements)
    sys.stdout.write("make: installing %d packages into %s\n" % (total, folder))
    sys.stdout.flush()
    progress("making a virtual environment")
    if os.path.lexists(folder):
        shutil.rmtree(folder)
    os.makedirs(folder)
    write(marker, INCOMPLETE)
    run([sys.executable, "-m", "venv", folder])
    python = os.path.join(folder, "bin", "python")
    pip = [python, "-m", "pip", "--no-input"]
    files = [argument for name in requirements for argument in ("-r", name)]
    install([*pip, "install", "--require-hashes", "--no-deps", *files], total)
    own = [argument for name in packages for argument in ("--editable", os.path.abspath(name))]
    run([*pip, "install", "-qq", "--no-deps", "--no-build-isolation", *own])
    # says so if the pins no longer satisfy a pyproject.toml
    run([*pip, "check", "--quiet"])
    write(marker, wanted)


def main(arguments):
    folder, requirements = arguments[0], arguments[1:]
    check_interpreter()
    packages = PACKAGES
    if "--packages" in requirements:
        at = requirements.index("--packages")
        requirements, packages = requirements[:at], requirements[at + 1 :]
    if "--unless-on-path" in requirements:
        at = requirements.index("--unless-on-path")
        program, extra = requirements[at + 1 : at + 3]
        missing = not on_path(program, os.path.join(folder, "bin"))
        requirements = requirements[:at] + ([extra] if missing else [])
    wanted = inputs(requirements, packages)
    try:
        with open(os.path.join(folder, MARKER)) as stream:
            if stream.read() == wanted:
                return
    except OSError:
        pass
    make(folder, requirements, packages, wanted)


if __name__ == "__main__":
    main(sys.argv[1:])
