"""`python -m kapilite`."""

from __future__ import annotations

from kapilite.command import main

if __name__ == "__main__":
    main()
