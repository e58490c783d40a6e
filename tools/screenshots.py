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
from support.web_site import DEVICES, SimulatedSite

MODELS = ("a100:2", "a2", "workstation")
NODE = "sim-a100-1"
PAGES = {
    "overview": "/",
    "gpu": f"/gpus/{NODE}-000017000",
    "plan": f"/gpus/{NODE}-000031000/vgpus?plan=1&vgpu%3AA100-10C=2&vgpu%3AA100-5C=0",
}
"""The addresses of the pages by the names of their pictures."""
VGPUS = {"004": "GRID A100-8C", "005": "GRID A100-8C", "006": "GRID A100-8C", "007": "GRID A100-8C"}


def prepare(site: SimulatedSite, person: Person) -> None:
    """Create a few vGPUs, and wait until the pages show them."""
    for function, profile in VGPUS.items():
        path = f"/apis/{DEVICES}/v1beta1/vgpudevices/{NODE}-000017{function}"
        spec = {"enabled": True, "vGPUTypeName": profile}
        site.api.call(path, "PATCH", {"spec": spec})
    page = person.go(f"/vgpus?node={NODE}&state=enabled")
    expect(page.locator("tbody").get_by_role("row")).to_have_count(len(VGPUS))


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
        site = SimulatedSite(Path(scratch) / "data", MODELS)
        try:
            size = {"width": WIDTH, "height": HEIGHT}
            context = browser.new_context(
                viewport=size, reduced_motion="reduce", color_scheme="light", timezone_id="UTC"
            )
            person = Person(context, site.address)
            expect(person.go(site.once).get_by_role("button", name="Sign out")).to_be_visible()
            prepare(site, person)
            for name, place in PAGES.items():
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
