"""Make src/laneway/web/static/vendor/ from the packages that its sources.toml names.

    python tools/web-assets/make.py            fetch, check, make
    python tools/web-assets/make.py --accept   the same, and write down what is there now

A package that is not the one of sources.toml, or a file that becomes another, is an error. With
`--accept`, for a new version, the integrity and the hashes are written into sources.toml instead.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from css import small

VENDOR = Path(__file__).parents[2] / "src/laneway/web/static/vendor"
SOURCES = VENDOR / "sources.toml"
LICENCE = "/*! {name} {version}, {licence}: LICENSE-{name} */\n"


def fetched(package: dict[str, Any], folder: Path) -> Path:
    """The tarball of a package, by npm, from the registry that this machine uses."""
    name = f"{package['npm']}@{package['version']}"
    command = ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder)]
    done = subprocess.run([*command, name], check=True, capture_output=True, text=True)
    return folder / done.stdout.split()[-1]


def integrity(tarball: Path) -> str:
    """As npm and package-lock.json write it."""
    digest = hashlib.sha512(tarball.read_bytes()).digest()
    return "sha512-" + base64.b64encode(digest).decode()


def made(package: dict[str, Any], file: dict[str, Any], tarball: tarfile.TarFile) -> bytes:
    """The content of a file of ours: one of the package as it is, or style sheets made small."""
    if "from" in file:
        return read(tarball, file["from"])
    sheets = [read(tarball, name).decode() for name in file["sheets"]]
    return (LICENCE.format_map(package) + small(sheets)).encode()


def read(tarball: tarfile.TarFile, name: str) -> bytes:
    stream = tarball.extractfile(f"package/{name}")
    if stream is None:
        raise KeyError(name)
    return stream.read()


def replaced(text: str, name: str, before: str, after: str) -> str:
    """The text of sources.toml with another hash in the paragraph of this name."""
    paragraph = re.compile(rf'^name = "{re.escape(name)}"\n(?:.+\n)*', re.MULTILINE)
    return paragraph.sub(lambda found: found[0].replace(f'"{before}"', f'"{after}"', 1), text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--accept", action="store_true", help="for a new version: write its hashes")
    accept = parser.parse_args().accept
    text = SOURCES.read_text()
    files: dict[str, bytes] = {}
    changes: list[tuple[str, str, str]] = []
    for package in tomllib.loads(text)["package"]:
        with tempfile.TemporaryDirectory() as folder:
            tarball = fetched(package, Path(folder))
            changes.append((package["name"], package["integrity"], integrity(tarball)))
            with tarfile.open(tarball) as opened:
                for file in package["file"]:
                    content = made(package, file, opened)
                    files[file["name"]] = content
                    digest = hashlib.sha256(content).hexdigest()
                    changes.append((file["name"], file["sha256"], digest))
    different = [name for name, before, after in changes if before != after]
    if different and not accept:
        print(f"web-assets: not what sources.toml says: {', '.join(different)}", file=sys.stderr)
        return 1
    for name, before, after in changes:
        text = replaced(text, name, before, after)
    for name, content in files.items():
        (VENDOR / name).write_bytes(content)
    SOURCES.write_text(text)
    print(f"web-assets: made {', '.join(files)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
