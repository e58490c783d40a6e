"""VMs for which there is no other GPU: told as by a look at each GPU for each VM."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Vgpu, Vm
from laneway.core.fleet.movable import bound, may_go, takes_vgpus, units
from laneway.core.ledger.facts import Phase


@st.composite
def _fleets(draw: st.DrawFn) -> Fleet:
    fleet = made_up("2x l40s*2, 2x a40*1")
    nodes = [replace(one, labels={"zone": draw(st.sampled_from("ab"))}) for one in fleet.nodes]
    gpus, vms = [], []
    ecc = draw(st.sampled_from([True, True, None]))
    for n, gpu in enumerate(fleet.gpus):
        vm = Vm(
            name=f"d/{n}",
            node=gpu.node,
            migratable=True,
            phase=draw(st.sampled_from([Phase.RUNNING, Phase.STOPPED])),
            selector=draw(st.sampled_from([{}, {"zone": "a"}, {"zone": "c"}])),
        )
        vgpu = Vgpu(name=f"v{n}", profile=f"NVIDIA {gpu.board}-24Q", holder=vm.name)
        vms.append(vm)
        gpus.append(
            replace(
                gpu,
                ecc=ecc,
                driver=draw(st.sampled_from(["580.2", "580.2", "570.1", ""])),
                vgpus=(vgpu,),
            )
        )
    return replace(fleet, nodes=tuple(nodes), gpus=tuple(gpus), vms=tuple(vms))


@given(_fleets())
def test_a_vm_is_bound_exactly_where_its_selector_or_all_gpus_refuse_it(fleet: Fleet) -> None:
    movable, _ = units(fleet)
    nodes = {node.name: node for node in fleet.nodes}
    open_ = [one for one, takes in zip(fleet.gpus, takes_vgpus(fleet), strict=True) if takes]

    def targets(vm: str, selector: Mapping[str, str]) -> set[str]:
        unit = replace(movable[vm], selector=selector)
        [leg] = unit.legs
        source = fleet.gpus[leg.gpu]
        return {one.name for one in open_ if may_go(unit, leg, source, one, nodes)}

    expected = {}
    for vm, unit in movable.items():
        chosen = targets(vm, unit.selector)
        if targets(vm, {}) - chosen:
            expected[vm] = "selector"
        elif not chosen:
            expected[vm] = "no other GPU"
    found = bound(fleet, movable.values())
    assert found.keys() == expected.keys()
    assert all(words in found[vm] for vm, words in expected.items())
