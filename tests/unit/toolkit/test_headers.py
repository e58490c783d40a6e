"""The kernel's headers are found where each distribution puts them, or asked for in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.toolkit.headers import find_headers
from laneway.toolkit.modules import prepare_folder
from laneway.toolkit.places import Places

DEBIAN, SUSE = "6.12.1-amd64", "6.4.0-150600.23-default"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "host").mkdir()
    return Places(
        node=str(tmp_path / "host"),
        modules=str(tmp_path / "lib/modules"),
        sources=str(tmp_path / "usr/src"),
        depmod=str(tmp_path / "etc/depmod.d/laneway.conf"),
    )


def sources(root: Path) -> Path:
    root.mkdir(parents=True)
    (root / "Makefile").write_text("")
    return root


@pytest.mark.parametrize(
    ("release", "folder"),
    [
        (DEBIAN, f"linux-headers-{DEBIAN}"),
        ("5.14.0-427.el9.x86_64", "kernels/5.14.0-427.el9.x86_64"),
        (SUSE, "linux-6.4.0-150600.23-obj/x86_64/default"),
    ],
)
def test_headers_of_the_node_come_first(places: Places, release: str, folder: str) -> None:
    sources(Path(places.sources) / folder)
    assert find_headers(places, release) == f"{places.sources}/{folder}"

    on_node = sources(Path(places.node) / "usr/src" / folder)
    assert find_headers(places, release) == str(on_node)


def test_the_link_next_to_the_modules_is_followed_on_the_node(places: Places) -> None:
    kept = sources(Path(places.node) / "usr/src/kept")
    (Path(places.node) / f"lib/modules/{DEBIAN}").mkdir(parents=True)
    (Path(places.node) / f"lib/modules/{DEBIAN}/build").symlink_to("/usr/src/kept")

    assert find_headers(places, DEBIAN) == str(kept)
    # They name each other by absolute paths.
    assert (Path(places.sources) / "kept/Makefile").exists()


def test_headers_may_be_next_to_the_modules(places: Places) -> None:
    built = sources(Path(places.node) / f"lib/modules/{DEBIAN}/build")

    assert find_headers(places, DEBIAN) == str(built)


def test_without_headers_the_package_is_named(places: Places) -> None:
    with pytest.raises(ToolkitError) as caught:
        find_headers(places, DEBIAN)

    failure = caught.value.failure
    assert (failure.reason, failure.passing) == ("HeadersMissing", False)
    assert f"linux-headers-{DEBIAN}" in failure.message


def test_the_drivers_modules_stand_among_the_nodes_and_not_in_them(places: Places) -> None:
    on_node = Path(places.node) / f"lib/modules/{DEBIAN}"
    (on_node / "kernel/drivers").mkdir(parents=True)
    (on_node / "modules.order").write_text("kernel/a.ko\n")
    (on_node / "modules.dep").write_text("of the node\n")

    folder = Path(prepare_folder(places, DEBIAN))
    (folder / "nvidia.ko").write_text("old")
    assert Path(prepare_folder(places, DEBIAN)) == folder

    assert list(folder.iterdir()) == []
    own = folder.parent
    assert (own / "kernel/drivers").is_dir()
    assert (own / "modules.order").read_text() == "kernel/a.ko\n"
    assert not (own / "modules.dep").exists()
    assert sorted(path.name for path in on_node.iterdir()) == [
        "kernel",
        "modules.dep",
        "modules.order",
    ]
    assert Path(places.depmod).read_text() == "search laneway updates built-in\n"
