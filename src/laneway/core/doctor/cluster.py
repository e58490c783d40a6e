"""Everything that can be said about a cluster from its facts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from laneway.core.doctor import parts
from laneway.core.doctor.cluster_facts import ClusterFacts, Definition, Stuck
from laneway.core.doctor.finding import Finding, advice, ok, problem
from laneway.core.phrases import few

OLDEST = (1, 28)
"""The first Kubernetes that Laneway is made for."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def judge(facts: ClusterFacts) -> list[Finding]:
    """All findings, in the order in which a person would go through them."""
    return [
        _version(facts),
        *_definitions(facts.definitions, seen="definitions" not in facts.unseen),
        *_harvester(facts),
        *parts.judge(facts),
        *_kubevirt(facts),
        *_nodes(facts),
        *_driver_toolkit(facts),
        *map(_stuck, facts.stuck),
        *(
            advice("Rights", words, why="The findings about it are missing here.")
            for words in facts.unknown
        ),
        *(
            advice(
                "Unreadable",
                f"{one.title} cannot be read: {one.problem}",
                why="The findings about it are missing here.",
                remedy="Correct or delete it.",
            )
            for one in facts.unreadable
        ),
    ]


def _version(facts: ClusterFacts) -> Finding:
    found = _VERSION.match(facts.version)
    if found is None:
        return advice(
            "Kubernetes", f"the API server calls its version {facts.version or 'nothing'}"
        )
    if (int(found[1]), int(found[2])) < OLDEST:
        return problem(
            "Kubernetes",
            f"the API server is of version {facts.version}",
            why="Laneway uses what older servers do not have, such as rules in definitions.",
            remedy=f"Upgrade to {OLDEST[0]}.{OLDEST[1]} or newer.",
        )
    return ok("Kubernetes", f"the API server is of version {facts.version}")


def _definitions(definitions: Iterable[Definition], *, seen: bool) -> Iterator[Finding]:
    found = list(definitions)
    missing = [one.name for one in found if not one.present]
    if missing:
        yield problem(
            "Definitions",
            f"the cluster does not know {few(missing)}",
            why="Nothing can be claimed or configured without these kinds.",
            remedy="laneway crds | kubectl apply --server-side -f -",
        )
    broken = [one.name for one in found if one.present and not one.established]
    if broken:
        yield problem(
            "Definitions",
            f"{few(broken)}: they exist and are not served",
            why="The API server has refused its names or its schema.",
            remedy=f"kubectl describe crd {broken[0]}",
        )
    older = [one for one in found if one.present and one.lacks]
    for one in older:
        yield advice(
            "Definitions",
            f"{one.name} lacks {few(one.lacks)}",
            why=(
                "The cluster drops what Laneway writes there; the definition is an older one, or "
                "Harvester's."
            ),
            remedy="The manager updates it when it starts. To update it now: laneway crds | "
            "kubectl apply --server-side --force-conflicts -f -",
        )
    for one in found:
        if one.adds:
            yield advice(
                "Definitions",
                f"{one.name} has {few(one.adds)}, which this Laneway does not know",
                why="An update of the definition drops what is stored there.",
                remedy="Use the Laneway release that wrote it, or a newer one.",
            )
    for release in sorted({one.release for one in found if one.release}):
        held = [one.name for one in found if one.release == release]
        yield advice(
            "Definitions",
            f"{few(held)} belong to the Helm release {release}",
            why="Uninstalling that release deletes them, and with them every object of theirs.",
            remedy="Do not uninstall it before its chart's templates have the annotation "
            "helm.sh/resource-policy: keep in each of them and helm upgrade has rolled that out: "
            "Helm uses the manifest that it stored, so kubectl annotate has no effect. Otherwise "
            "save the objects first: kubectl get "
            f"{','.join(held)} -o yaml > objects.yaml",
        )
    if seen and not (missing or broken or older):
        yield ok("Definitions", f"all {len(found)} kinds are there, with all fields")


def _harvester(facts: ClusterFacts) -> Iterator[Finding]:
    harvester = facts.harvester
    daemon_set = harvester.daemon_set
    if daemon_set is not None and harvester.runs:
        version = daemon_set.version or "an unknown version"
        if facts.agents is not None or any(node.agent for node in facts.nodes):
            yield problem(
                "HarvesterController",
                f"Harvester's controller ({version}) and Laneway's agents run side by side",
                why="They undo each other's work on the same devices and objects.",
                remedy="laneway takeover --dry-run says what a takeover would do; laneway takeover "
                "does it without touching a device in use.",
            )
        else:
            yield advice(
                "HarvesterController",
                f"Harvester's controller ({version}) manages the devices",
                why="Only one can.",
                remedy="Before Laneway is installed: laneway takeover --dry-run, then laneway "
                "takeover.",
            )
    elif harvester.parked:
        yield ok("HarvesterController", "Harvester's controller is parked by a takeover")
    if harvester.hooks and harvester.seen and not harvester.runs:
        yield problem(
            "HarvesterWebhooks",
            f"{few(harvester.hooks)} of Harvester's controller, which does not run",
            why="The API server calls them at every change of a device or VM, and gets no answer.",
            remedy="laneway takeover saves and removes them.",
        )
    if harvester.parked and harvester.seen and not harvester.saved:
        yield advice(
            "HarvesterController",
            "its controller is parked, and the record of its former state is missing",
            why="laneway takeover --back cannot restore it.",
            remedy="To run it again, remove its node selector: kubectl -n harvester-system "
            "edit daemonset harvester-pcidevices-controller",
        )


def _kubevirt(facts: ClusterFacts) -> Iterator[Finding]:
    if not facts.kubevirts and "kubevirts" not in facts.unseen:
        yield advice(
            "KubeVirt",
            "the cluster has no KubeVirt",
            why="Pods can use devices, but there are no VMs.",
            remedy="Install KubeVirt to run VMs.",
        )
    for one in facts.kubevirts:
        gates = {gate.lower() for gate in one.gates}
        if one.phase and one.phase != "Deployed":
            yield advice("KubeVirt", f"KubeVirt {one.title} is {one.phase}, not Deployed")
        if "hostdevices" not in gates:
            yield problem(
                "KubeVirt",
                f"KubeVirt {one.title} {one.version}".rstrip() + " lacks the feature gate "
                "HostDevices",
                why="It refuses VMs with devices.",
                remedy="Add HostDevices (and GPU) to spec.configuration.developerConfiguration."
                "featureGates of the KubeVirt.",
            )
        else:
            version = f" {one.version}" if one.version else ""
            permits = "" if one.permits else "; it permits no devices yet"
            yield ok("KubeVirt", f"KubeVirt {one.title}{version} takes host devices{permits}")
        if one.internal:
            yield problem(
                "PermittedDevices",
                f"KubeVirt {one.title} also advertises {few(one.internal)} itself",
                why="A kubelet takes only one plugin for a resource.",
                remedy="Set externalResourceProvider to true in these entries of "
                "permittedHostDevices, or remove them.",
            )


def _nodes(facts: ClusterFacts) -> Iterator[Finding]:
    if "nodes" in facts.unseen:
        return
    if facts.agents is None and not any(node.agent for node in facts.nodes):
        return
    without = [node.name for node in facts.nodes if node.gpus and not node.agent]
    if without:
        yield problem(
            "Nodes",
            f"nodes with GPUs and no agent: {few(without)}",
            why="No agent manages their devices.",
            remedy="Check the agent's node selector and tolerations. To list the pods of the "
            "node: kubectl get pods -A "
            f"-o wide --field-selector spec.nodeName={without[0]}",
        )
    elif facts.nodes:
        count = sum(node.agent for node in facts.nodes)
        yield ok("Nodes", f"{count} of {len(facts.nodes)} nodes have an agent")


def _driver_toolkit(facts: ClusterFacts) -> Iterator[Finding]:
    for node in facts.nodes:
        if node.driver and node.driver_failed:
            yield problem(
                "DriverToolkit",
                f"node {node.name}: {node.driver}",
                why="Without the driver, the node's GPUs carry no vGPUs.",
                remedy=f"kubectl describe nodes.devices.harvesterhci.io {node.name}",
            )
        elif node.driver:
            yield advice("DriverToolkit", f"node {node.name}: {node.driver}")


def _stuck(one: Stuck) -> Finding:
    title = f"{one.resource} {one.name} is being deleted since {one.since}"
    if one.ours:
        who = f"the agent of node {one.node}" if one.node else "an agent"
        if one.answer:
            return advice(
                "Deletion",
                f"{title}; {who} says: {one.answer}",
                remedy="It is deleted when that ends.",
            )
        return problem(
            "Deletion",
            f"{title}, and {who} does not answer",
            why="Only that agent releases its device.",
            remedy="Check that the agent runs there. If the node has left the cluster, the "
            "manager removes the rest.",
        )
    return problem(
        "Deletion",
        f"{title}, held by {few(one.finalizers)}",
        why="No part of Laneway removes these finalizers.",
        remedy="Find the program that set it. If it no longer runs, remove the finalizer: kubectl "
        "edit "
        f"{one.resource} {one.name}",
    )
