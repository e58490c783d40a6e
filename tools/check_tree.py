"""What may not be committed: paths of one machine, and names of package registries.

Both tie a checkout to the place where it was written. Pins must name no index in particular, and a
path below somebody's home folder is true nowhere else.
"""

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


def main() -> int:
    found = [line for name in tracked() for line in findings(name)]
    print("\n".join(found) or "nothing committed is bound to one machine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
