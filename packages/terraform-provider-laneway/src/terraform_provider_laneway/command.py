"""`laneway-terraform-provider`: what Terraform starts, and what makes a mirror for Terraform.

Terraform starts a provider without arguments and says who it is by a variable of the environment.
"""

from __future__ import annotations

import logging
import os
import sys

import click

COOKIE = "TF_PLUGIN_MAGIC_COOKIE"
"""What Terraform sets for its plugins."""


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Laneway's provider for Terraform, which Terraform starts by itself.

    `laneway-terraform-provider mirror DIR` makes it available to Terraform.
    """
    if context.invoked_subcommand is not None:
        return
    if COOKIE not in os.environ:
        click.echo(context.get_help())
        return
    serve()


@main.command()
@click.argument("directory", type=click.Path(file_okay=False))
def mirror(directory: str) -> None:
    """Write the provider into DIRECTORY, for `filesystem_mirror` in Terraform's configuration."""
    from terraform_provider_laneway import mirror as made  # noqa: PLC0415 - needed here only

    try:
        path = made.write(directory, sys.executable)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    click.echo(f"Wrote {path}")
    click.echo(made.configuration(directory), nl=False)


def serve() -> None:
    """Serve Terraform until it ends the process."""
    from tf.runner import run_provider  # noqa: PLC0415 - slow to import

    from terraform_provider_laneway.provider import Provider  # noqa: PLC0415

    # Terraform takes each line of the standard error for a line of its log.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="[WARN] %(message)s")
    run_provider(Provider(), ["terraform-provider-laneway"])


if __name__ == "__main__":
    main()
