"""Which devices a kubelet may have for the pods that it asks for: where a claim is enforced last.

Admission judges what is written; what was written before there was a claim, or while the webhook
did not answer, comes here unjudged. So whenever a device is chosen or allocated that is claimed for
a user, the API server is asked which pods are on the node, and the kubelet which of them have
theirs. Both are asked again, because what a cache has not heard of yet may be the one that is
meant. Who is meant may become clear in a moment, when another pod has failed: the kubelet waits for
it. A pod that comes meanwhile is not meant, as the kubelet had asked before: so no user can keep
others from their devices by making pods without end.

A device that is for all costs nothing of this, and has no wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from laneway.controllers.claims.claim_users import EVERYBODY, USE, Claim, plural_of, user_of
from laneway.controllers.device_plugin.desired import Caches
from laneway.controllers.ledger.demands import limits_of, limits_of_container
from laneway.controllers.ledger.objects import PODS
from laneway.controllers.ledger.objects import Pod as Asking
from laneway.core.device_plugin.entitled import Pod, barred, candidates
from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.phrases import quoted
from laneway.core.requesters import User, read
from laneway.kube.access import REVIEWS, review
from laneway.kube.client import Client
from laneway.kube.errors import KubeError
from laneway.kubelet.errors import KubeletError
from laneway.kubelet.pod_resources import PodResources

log = logging.getLogger(__name__)

ASK_SECONDS = 10.0
"""For all questions about one request of the kubelet's."""
LOOKS = 6
LOOK_SECONDS = 0.5
"""So often, and with such a pause, it is looked who is meant where that is not clear."""


class Gate:
    """Of one node."""

    def __init__(self, node: str, client: Client, caches: Caches, kubelet: str) -> None:
        self._node = node
        self._client = client
        self._caches = caches
        self._resources = PodResources(kubelet)

    async def barred(
        self, resource: str, offers: Sequence[Offer], count: int, *, patient: bool
    ) -> Mapping[str, str]:
        """Of these devices those that the pods that request so many may not have, by id, and why.

        `patient`: wait a moment where it depends on who of several is meant.
        """
        claims = {}
        against = {}
        for offer in offers:
            claim = self._claim_of(offer)
            if claim is None and offer.form is not Form.MDEV:
                against[offer.id] = f"{offer.name} is not claimed any more"
            elif claim is not None and user_of(claim, self._caches.vgpus.store) != EVERYBODY:
                claims[offer.id] = claim
        if not claims:
            return against
        try:
            async with asyncio.timeout(ASK_SECONDS):
                return against | await self._judged(resource, claims, count, patient=patient)
        except (KubeError, KubeletError, TimeoutError) as error:
            why = f"{error}" or f"no answer within {ASK_SECONDS:.0f} s"
            log.warning(
                "cannot determine for which pod the kubelet allocates %s: %s", resource, why
            )
            text = "and which pod it is for could not be determined"
            return against | {
                one: f"{claim.metadata.name} is claimed by {quoted(claim.spec.user_name)}, {text}: "
                f"{why}"
                for one, claim in claims.items()
            }

    async def _judged(
        self, resource: str, claims: Mapping[str, Claim], count: int, *, patient: bool
    ) -> dict[str, str]:
        meant = await self._pods()
        for look in range(LOOKS):
            found = candidates(meant, resource, count, await self._resources.owners())
            against, may_be = {}, False
            for device, claim in claims.items():
                may = {pod.title: await self._may(pod, claim) for pod in found}
                why, some = barred(claim.metadata.name, claim.spec.user_name, found, may)
                if why:
                    against[device] = why
                may_be = may_be or some
            if not (patient and may_be) or look == LOOKS - 1:
                break
            await asyncio.sleep(LOOK_SECONDS)
            before = {pod.uid for pod in meant}
            meant = [pod for pod in await self._pods() if pod.uid in before]
        return against

    async def _pods(self) -> list[Pod]:
        selector = f"spec.nodeName={self._node}"
        return [
            _seen(PODS.decode(raw))
            async for page in self._client.list(PODS, field_selector=selector)
            for raw in page.items
        ]

    async def _may(self, pod: Pod, claim: Claim) -> bool:
        users = pod.entitled
        if any(user.username == claim.spec.user_name for user in users):
            return True
        for user in users:
            if await self._has(user, claim):
                return True
        return False

    async def _has(self, user: User, claim: Claim) -> bool:
        question = review(
            USE,
            plural_of(claim),
            claim.metadata.name,
            username=user.username,
            groups=user.groups,
        )
        answer = await self._client.create(REVIEWS, question)
        return answer.status.allowed

    def _claim_of(self, offer: Offer) -> Claim | None:
        if offer.form is Form.USB:
            return self._caches.usb.store.get(offer.name)
        return self._caches.claims.store.get(offer.name)


def _seen(pod: Asking) -> Pod:
    spec, meta = pod.spec, pod.metadata
    sizes = set[tuple[str, int]]()
    for container in (*spec.containers, *spec.init_containers):
        sizes.update(limits_of_container(container).items())
    return Pod(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        phase=pod.status.phase,
        limits=limits_of(pod),
        sizes=sizes,
        users=read(meta.annotations),
        account=spec.service_account_name,
    )
