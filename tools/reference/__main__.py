"""Write `docs/reference/`; `--check` writes nothing, names the pages that are stale, and fails."""

from __future__ import annotations

import sys

from reference.pages import FOLDER, stale


def main() -> int:
    found = stale()
    for name, text in found.items():
        if "--check" not in sys.argv[1:]:
            (FOLDER / name).write_text(text)
            print(f"wrote docs/reference/{name}")
        else:
            print(f"docs/reference/{name} is stale: run make reference")
    return 1 if found and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
