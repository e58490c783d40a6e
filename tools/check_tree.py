"""What may not be committed: paths of one machine, hosts of registries, misplaced tests.

Both tie a checkout to the place where it was written. Pins must name no index in particular, and a
path below a home folder is true nowhere else. A unit test lies where the module lies that
it is about, or it is not found there. A module that grows beyond its limit has two ideas.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w.~}-])/(?:home|root|Users|work)/[\w.-]"),
    "a registry's host": re.compile(
        r"pypi[.]org|pythonhosted[.]org|deb[.]debian[.]org|security[.]debian[.]org"
        r"|registry[.]npmjs|proxy[.]golang|crates[.]io"
    ),
}
PIN_LINE = re.compile(r"#.*|[a-z0-9-]+==\S+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
UNIT, SOURCES = Path("tests/unit"), Path("src/laneway")
NO_LAYER = {"chart", "words"}
"""Folders of unit tests about what is no layer of the program."""
LONGEST = 500
"""Lines of a module."""
RECORDED = ("tests/data/",)
"""Recordings of real machines may hold what those machines held."""


def tracked() -> list[str]:
    out = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
    ).stdout
    return [name for name in out.decode().split("\0") if name and Path(name).is_file()]


def findings(name: str) -> list[str]:
    """One line for each thing in the file that must go."""
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return []
    found = []
    if name.endswith(".py") and len(lines) > LONGEST:
        found.append(f"{name}: {len(lines)} lines; a module has {LONGEST} at most")
    for number, line in enumerate(lines, 1):
        if not name.startswith(RECORDED):
            found += [
                f"{name}:{number}: {what}: {match[0]}"
                for what, pattern in FORBIDDEN.items()
                if (match := pattern.search(line))
            ]
        if name.startswith("constraints/") and not PIN_LINE.fullmatch(line):
            found.append(f"{name}:{number}: neither a pin nor a hash: {line}")
    return found


def own_modules(test: Path, layer: str) -> set[Path]:
    """The folders of the modules of its layer that a test imports, or its conftest.py."""
    found = set()
    texts = [
        path.read_text("utf-8") for path in (test, test.parent / "conftest.py") if path.exists()
    ]
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"laneway.{layer}"):
            whole = SOURCES.joinpath(*(node.module or "").split(".")[1:])
            inner = [whole / f"{alias.name}.py" for alias in node.names]
            found |= {whole} if whole.is_dir() else {whole.parent}
            found |= {path.parent for path in inner if path.exists()}
            found |= {whole / alias.name for alias in node.names if (whole / alias.name).is_dir()}
    return found


def misplaced(name: str) -> list[str]:
    """One line for a unit test that lies where none of the modules lies that it imports."""
    test = Path(name)
    if not test.name.startswith("test_") or not test.is_relative_to(UNIT):
        return []
    place = test.parent.relative_to(UNIT)
    if not place.parts or place.parts[0] in NO_LAYER:
        return []
    folders = own_modules(test, place.parts[0])
    if (SOURCES / place).is_dir() and (not folders or SOURCES / place in folders):
        return []
    where = ", ".join(sorted(str(one.relative_to(SOURCES)) for one in folders)) or "no folder"
    return [f"{name}: not about {SOURCES / place}; its modules lie in {where}"]


def main() -> int:
    found = [line for name in tracked() for line in (*findings(name), *misplaced(name))]
    print(
        "\n".join(found)
        or "nothing is bound to one machine, unit tests lie by their modules, no module is too long"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
