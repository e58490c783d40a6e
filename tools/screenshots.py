"""The pictures of the documentation: PYTHONPATH=tests python tools/screenshots.py FOLDER.

They show simulated nodes after a few changes, in the light theme, each of the same size. What a
page names is always the same; times and UUIDs are those of the run.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import expect

from support.chromium import HEIGHT, WIDTH, Person, chromium, picture
from support.guest_pools import make_cluster, until_running, vgpu_info
from support.web_site import DEVICES, SimulatedSite

MODELS = ("a100:2", "a2", "workstation")
NODE = "sim-a100-1"
RESOURCE = "nvidia.com/GRID_A100-8C"
PAGES = {
    "overview": "/",
    "gpu": f"/gpus/{NODE}-000017000",
    "plan": f"/gpus/{NODE}-000031000/vgpus?plan=1&vgpu%3AA100-10C=2&vgpu%3AA100-5C=0",
}
"""The addresses of the pages by the names of their pictures."""
POOL = "/pools/fleet-default/vision/training"
POOLS = {"pool": f"{POOL}/change?edited=1&type={RESOURCE}&count=1&machines=4"}
"""The same of those that show machine pools, which are made last."""
VGPUS = {"004": "GRID A100-8C", "005": "GRID A100-8C", "006": "GRID A100-8C", "007": "GRID A100-8C"}


def prepare(site: SimulatedSite, person: Person) -> None:
    """Create a few vGPUs, and wait until the pages show them."""
    for function, profile in VGPUS.items():
        path = f"/apis/{DEVICES}/v1beta1/vgpudevices/{NODE}-000017{function}"
        spec = {"enabled": True, "vGPUTypeName": profile}
        site.api.call(path, "PATCH", {"spec": spec})
    page = person.go(f"/vgpus?node={NODE}&state=enabled")
    expect(page.locator("tbody").get_by_role("row")).to_have_count(len(VGPUS))


def prepare_pools(site: SimulatedSite) -> None:
    """A guest cluster with a pool that has vGPUs, and one that has none."""
    pools = {
        "control-plane": {"quantity": 1},
        "training": {"quantity": 2, "vgpuInfo": vgpu_info(RESOURCE)},
    }
    make_cluster(site, "vision", pools)
    until_running(site, "training", 2)


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        site = SimulatedSite(Path(scratch) / "data", MODELS, "--rancher")
        try:
            size = {"width": WIDTH, "height": HEIGHT}
            context = browser.new_context(
                viewport=size, reduced_motion="reduce", color_scheme="light", timezone_id="UTC"
            )
            person = Person(context, site.address)
            expect(person.go(site.once).get_by_role("button", name="Sign out")).to_be_visible()
            prepare(site, person)
            for name, place in (PAGES | POOLS).items():
                if name in POOLS:
                    prepare_pools(site)
                answer = person.page.goto(site.address + place)
                if answer is None or not answer.ok:
                    sys.exit(f"screenshots: {place} cannot be shown: {person.page.title()}")
                picture(person.page, folder / f"{name}.png")
                print(f"screenshots: {folder / name}.png")
            if person.complaints:
                sys.exit("\n".join(person.complaints))
        finally:
            site.end()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
