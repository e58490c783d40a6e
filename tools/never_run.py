"""Say which tests passed in none of several runs: `never_run.py JUNIT-XML...`.

What one guest of the kernel rig must leave out another one runs; what none runs is told here, with
the reason, so that nothing is left out without a word.
"""

from __future__ import annotations

import re
import sys
from xml.etree import ElementTree


def main() -> None:
    passed: set[str] = set()
    skipped: dict[str, str] = {}
    for path in sys.argv[1:]:
        for case in ElementTree.parse(path).iter("testcase"):  # noqa: S314 - pytest wrote it
            name = f"{case.get('classname')}::{case.get('name')}"
            reason = case.find("skipped")
            if reason is None:
                passed.add(name)
            else:
                skipped[name] = re.sub(r"\s+", " ", reason.get("message", ""))
    for name in sorted(skipped.keys() - passed):
        print(f"-- run by none of these guests: {name}: {skipped[name]}")


if __name__ == "__main__":
    main()
