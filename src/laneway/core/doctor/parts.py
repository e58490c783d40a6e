"""What can be said of Laneway's own parts in a cluster: what runs, and whether it is asked."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.core.doctor.cluster_facts import ClusterFacts, Hook, Workload
from laneway.core.doctor.finding import Finding, advice, ok, problem
from laneway.core.phrases import few

_INSTALL = "Install Laneway: the chart charts/laneway, or: laneway manifests | kubectl apply -f -"
_SHORT_DAYS = 7
_OWN_GROUP = ".devices.harvesterhci.io"


def judge(facts: ClusterFacts) -> Iterator[Finding]:
    """All findings about them."""
    yield from _components(facts)
    yield from _hooks(facts)
    yield from _certificate(facts)


def _components(facts: ClusterFacts) -> Iterator[Finding]:
    parts = {"agents": facts.agents, "manager": facts.managers, "webhook": facts.webhooks}
    missing = [name for name, part in parts.items() if part is None]
    if "parts" in facts.unseen:
        missing = []
    if len(missing) == len(parts) and any(node.agent for node in facts.nodes):
        yield ok("Laneway", "Laneway runs outside this cluster's pods, as laneway up does")
        return
    if len(missing) == len(parts):
        yield advice(
            "Laneway",
            "Laneway is not installed in this cluster",
            why="No agent applies what objects request.",
            remedy=_INSTALL,
        )
        return
    for name in missing:
        yield problem(
            "Laneway",
            f"Laneway's {name} is missing",
            why="Laneway needs all of its parts.",
            remedy=_INSTALL,
        )
    there = [part for part in parts.values() if part is not None]
    for part in there:
        yield _component(part)
    versions = {part.version for part in there if part.version}
    if len(versions) > 1:
        yield advice(
            "Laneway",
            f"Laneway's parts are of different versions: {few(sorted(versions))}",
            why="This is normal for a moment during an upgrade.",
            remedy="If it stays: kubectl rollout status, and helm upgrade once more.",
        )


def _component(part: Workload) -> Finding:
    version = f" ({part.version})" if part.version else ""
    if part.ready < part.wanted:
        return problem(
            "Laneway",
            f"{part.title}{version}: {part.ready} of {part.wanted} ready",
            why="Nothing does its work on the other nodes or replicas.",
            remedy=f"kubectl -n {part.namespace} describe {part.kind.lower()} {part.name}; "
            f"kubectl -n {part.namespace} logs {part.kind.lower()}/{part.name}",
        )
    if not part.wanted:
        return problem(
            "Laneway",
            f"{part.title}{version} is scheduled to no node",
            why="Its work is not done.",
            remedy="Check its node selector, tolerations and number of replicas.",
        )
    return ok("Laneway", f"{part.title}{version}: {part.ready} of {part.wanted} ready")


def _hooks(facts: ClusterFacts) -> Iterator[Finding]:
    seen = "hooks" not in facts.unseen
    if facts.webhooks is not None and seen and not facts.hooks:
        yield problem(
            "Webhooks",
            "Laneway's webhook configurations are missing",
            why="Nothing is checked before it is stored.",
            remedy=_INSTALL,
        )
    sound = 0
    for hook in facts.hooks:
        found = list(_hook(hook))
        sound += not found
        yield from found
    if seen and sound and sound == len(facts.hooks):
        compared = all(hook.trust == "fits" for hook in facts.hooks)
        fits = "their CA is right" if compared else "their CA could not be compared"
        yield ok("Webhooks", f"all {sound} webhooks are registered, and {fits}")


def _hook(hook: Hook) -> Iterator[Finding]:
    title = f"{hook.configuration}/{hook.name}"
    fails = hook.failure_policy == "Fail"
    effect = (
        "Every change of such an object is refused."
        if fails
        else "Such objects are stored unchecked."
    )
    if hook.trust in ("missing", "other"):
        how = "has no CA" if hook.trust == "missing" else "has a wrong CA"
        yield problem(
            "Webhooks",
            f"{title} {how}",
            why=f"The API server cannot reach it. {effect}",
            remedy="Check that the manager runs: it keeps the CA right, unless "
            "--webhook-certificates says otherwise (cert-manager: see its Certificate).",
        )
    if not hook.reachable:
        yield problem(
            "Webhooks",
            f"{title}: service {hook.service} does not exist",
            why=effect,
            remedy=_INSTALL,
        )
    own = all(one.endswith(_OWN_GROUP) for one in hook.resources)
    if own and not fails and hook.resources:
        yield advice(
            "Webhooks",
            f"{title} has failurePolicy {hook.failure_policy or 'unset'}",
            why="While the webhook does not answer, objects are stored unchecked.",
            remedy="Set it to Fail, which is the chart's default.",
        )


def _certificate(facts: ClusterFacts) -> Iterator[Finding]:
    certificate = facts.certificate
    if certificate is None:
        return
    if certificate.days < 0:
        yield problem(
            "Certificate",
            f"the webhook's certificate in {certificate.secret} expired on {certificate.expires}",
            why="The API server refuses to talk to the webhook.",
            remedy="Check that the manager runs: it renews the certificate.",
        )
    elif certificate.days < _SHORT_DAYS:
        yield advice(
            "Certificate",
            f"the webhook's certificate in {certificate.secret} expires on {certificate.expires}",
            why="It should have been renewed by now.",
            remedy="Check that the manager runs: it renews the certificate.",
        )
    else:
        yield ok("Certificate", f"the webhook's certificate is good until {certificate.expires}")
