"""A person plans on the cluster and on a file, finds out why a VM has no room, and what helps."""

from __future__ import annotations

from playwright.sync_api import FilePayload, expect

from laneway.core.fleet import inventory_file
from laneway.core.fleet.model import Fleet, Node, Vm
from laneway.core.ledger.facts import Phase
from support.chromium import Person, axe
from support.planning import Q24, Q48, half_used, running

NODE = "sim-a2-5"


def a_file(content: str) -> FilePayload:
    return {"name": "fleet.json", "mimeType": "application/json", "buffer": content.encode()}


def test_a_person_plans_on_a_file_and_on_the_cluster(administrator: Person) -> None:
    page = administrator.go("/")
    pages = page.get_by_role("navigation", name="Pages", exact=True)
    pages.get_by_role("link", name="Planner", exact=True).click()
    answer = page.locator("#live-fit")
    expect(answer).to_contain_text("Planned on")

    file, upload = (
        page.get_by_label("Inventory file", exact=True),
        page.get_by_role("button", name="Upload"),
    )
    upload.click()
    expect(page.get_by_text("Choose a file.")).to_be_visible()
    file.set_input_files(a_file('{"kind": "FleetInventory", "version": 1, "fleet": {"gpu": []}}'))
    upload.click()
    expect(page.get_by_text("fleet.json is not read: fleet: ")).to_be_visible()
    axe(page)
    file.set_input_files(a_file(inventory_file.write(half_used(2), as_json=True)))
    upload.click()
    expect(page.get_by_text("fleet.json is read.")).to_be_visible()
    expect(answer).to_contain_text("Planned on 2 nodes, 2 GPUs and 2 VMs.")

    vms = page.get_by_role("group", name="VMs to add")
    device = vms.get_by_label("Device of each VM", exact=True).first
    device.select_option(Q48)
    expect(answer).to_contain_text("No: of 1 VM there is room for 0.")
    expect(answer).to_contain_text("2 GPUs with vGPUs of another size in use")
    expect(answer).to_contain_text("Yes, after 1 move. Fewer do not suffice.")
    expect(answer.get_by_role("list", name="What to do, in this order")).to_contain_text(
        "reserve for the stopped d/"
    )
    axe(page)
    file.set_input_files(a_file(inventory_file.write(running(half_used(2)), as_json=True)))
    upload.click()
    expect(answer).to_contain_text("Yes: no VM waits or has to move.")
    device.select_option(Q48)
    expect(answer).to_contain_text("No: there is no room after 4 moves or fewer.")
    expect(answer).to_contain_text("not moved, as it is not live-migratable: d/0, d/1")
    page.get_by_label("VMs that are not live-migratable may be restarted").check()
    expect(answer).to_contain_text("Yes, after 1 move. Fewer do not suffice.")
    expect(answer.get_by_label("Command that finds the same moves")).to_have_text(
        "laneway plan moves --from fleet.json --restart L40S-48Q"
    )
    vms.get_by_label("VMs", exact=True).first.fill("0")
    expect(answer).to_contain_text("Enter a number from 1 to 10,000.")
    vms.get_by_label("VMs", exact=True).first.fill("2")
    expect(answer).to_contain_text("No: of 2 VMs there is room for 0.")
    page.get_by_role("group", name="Nodes to add").get_by_label("Server").first.select_option(
        "l40s"
    )
    expect(answer).to_contain_text("Yes: there is room for 2 VMs.")
    expect(answer.get_by_role("row").filter(has_text="new-2")).to_contain_text("node new-l40s-1")
    leave = page.get_by_role("group", name="Nodes that are drained or lost")
    leave.get_by_label("Node").first.fill("l40s-9")
    expect(answer).to_contain_text("the fleet has no node l40s-9. Did you mean")
    expect(leave.get_by_label("Node").first).to_have_attribute("aria-invalid", "true")
    expect(leave.get_by_text("the fleet has no node l40s-9.")).to_be_visible()
    page.reload()
    expect(answer).to_contain_text("the fleet has no node l40s-9.")
    expect(device).to_have_value(Q48)
    axe(page)
    leave.get_by_label("Node").first.fill("")
    expect(answer).to_contain_text("Yes: there is room for 2 VMs.")

    others = vms.get_by_label("Another device", exact=True)
    others.first.select_option(Q24)
    expect(others).to_have_count(2)
    vms.get_by_label("Per VM", exact=True).nth(1).fill("3")
    expect(answer).to_contain_text("no node has room for all of its devices at once")
    vms.get_by_label("Only on nodes labelled").first.fill("zone")
    expect(vms.get_by_text("Enter labels as KEY=VALUE")).to_be_visible()
    vms.get_by_label("Only on nodes labelled").first.fill("")
    expect(vms.get_by_text("Enter labels as KEY=VALUE")).to_have_count(0)
    others.first.select_option("")
    expect(others).to_have_count(1)
    device.select_option("")
    expect(answer).to_contain_text("Yes: no VM waits or has to move.")
    changed = page.get_by_role("group", name="VMs that request other devices")
    changed.get_by_label("VM, or a label of VMs").first.fill("d/0")
    expect(changed.get_by_text("Choose a device.")).to_be_visible()
    changed.get_by_label("Device of each VM", exact=True).first.select_option(Q48)
    expect(answer.get_by_role("row").filter(has_text="d/0")).to_contain_text("node new-l40s-1")
    expect(answer.get_by_label("Command that asks the same")).to_have_text(
        f"laneway plan what-if --from fleet.json --add-nodes '1x l40s' --change d/0:{Q48}=1"
    )
    axe(page)

    page.get_by_role("button", name="Forget the file").click()
    expect(page.get_by_text("The file is forgotten.")).to_be_visible()
    nodes = page.get_by_role("group", name="Nodes that are drained or lost").get_by_label("Node")
    nodes.first.fill("l40s-1")
    expect(answer).to_contain_text("the fleet has no node l40s-1")
    nodes.first.fill(NODE)
    expect(answer).to_contain_text("Yes: no VM waits or has to move.")
    page.goto(f"{administrator.address}/planner?source=file&type-0={Q24}")
    expect(answer).to_contain_text("No file is uploaded")

    unlike = tuple(
        Vm(name=f"v{n}", phase=Phase.PENDING, requests={f"r{n}": 1}) for n in range(1000)
    )
    huge = Fleet(nodes=tuple(Node(name=f"n{n}") for n in range(1000)), vms=unlike)
    file.set_input_files(a_file(inventory_file.write(huge, as_json=True)))
    upload.click()
    expect(answer).to_contain_text("This question is too large for the web interface")
    expect(answer).to_contain_text("laneway plan what-if --from fleet.json")
