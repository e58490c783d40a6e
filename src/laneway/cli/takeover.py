"""`laneway takeover`: from Harvester's controller to Laneway without touching a device in use."""

from __future__ import annotations

import click

from laneway.cli import connection, findings
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.cli.statuses import ExitStatus
from laneway.controllers.takeover import steps
from laneway.controllers.takeover.facts import look
from laneway.core import takeover as rules
from laneway.core.doctor.finding import healthy
from laneway.core.takeover import TakeoverFacts
from laneway.kube.client import Client


def take_over(where: ClusterChoice, *, dry_run: bool, back: bool, seconds: int) -> int:
    """Take over from Harvester's controller, or go back; gives the exit status."""

    async def work(client: Client) -> int:
        facts = await look(client)
        if back:
            return await undo(client, facts, dry_run=dry_run)
        return await carry_out(client, facts, dry_run=dry_run, seconds=seconds)

    again = ". What was done stays. Run the command again to continue."
    return connection.ask(work, where, "" if dry_run else again)


async def carry_out(client: Client, facts: TakeoverFacts, *, dry_run: bool, seconds: int) -> int:
    harvester = facts.cluster.harvester
    if harvester.seen and not (harvester.daemon_set or harvester.hooks):
        click.echo("Nothing to do: Harvester's PCI devices controller is not installed here.")
        return 0
    finished = harvester.parked and not (harvester.runs or harvester.hooks or facts.adopted)
    if harvester.seen and finished and harvester.saved and facts.adoptable:
        click.echo("Nothing to do: Harvester's controller is parked already.")
        return 0
    found = rules.before(facts)
    click.echo(findings.text(found), nl=False)
    if not healthy(found):
        return _stopped()
    if dry_run:
        click.echo("Would do, in this order:")
        for number, step in enumerate(rules.steps(harvester.hooks, parked=harvester.parked), 1):
            click.echo(one_line(f"{number}. {step}"))
        return 0
    try:
        await steps.take(client, _tell, seconds=seconds)
    except steps.StillRunningError as error:
        raise Failure(str(error)) from None
    click.echo(
        "Done. The devices are as they were, and no controller manages them now: install Laneway, "
        "whose agents adopt them. To go back: laneway takeover --back"
    )
    return 0


async def undo(client: Client, facts: TakeoverFacts, *, dry_run: bool) -> int:
    harvester = facts.cluster.harvester
    if harvester.seen and not (harvester.parked or harvester.saved):
        click.echo("Nothing to do: nothing of Harvester's controller was taken over.")
        return 0
    found = rules.before_going_back(facts)
    click.echo(findings.text(found), nl=False)
    if not healthy(found):
        return _stopped()
    if dry_run:
        click.echo(
            "Would let the DaemonSet run, restore its webhook configurations, and remove the "
            "ConfigMap harvester-system/laneway-takeover."
        )
        return 0
    await steps.back(client, _tell)
    click.echo("Done. Harvester's controller manages the devices again.")
    return 0


def _stopped() -> int:
    click.echo("Nothing was changed: solve the problems first.", err=True)
    return ExitStatus.NO


def _tell(words: str) -> None:
    click.echo(one_line(words))
