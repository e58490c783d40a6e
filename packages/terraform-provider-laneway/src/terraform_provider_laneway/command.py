"""`laneway-terraform-provider`: what Terraform starts, and what makes a mirror for Terraform.

Terraform starts a provider without arguments and says who it is by a variable of the environment.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
from typing import Any

import click

COOKIE = "TF_PLUGIN_MAGIC_COOKIE"
"""What Terraform sets for its plugins."""
_STOP = "/tfplugin6.Provider/StopProvider"


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
    from terraform_provider_laneway import mirror as made  # noqa: PLC0415 - imports `tf`

    try:
        path = made.write(directory, sys.executable)
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    click.echo(f"Wrote {path}")
    click.echo(made.configuration(directory), nl=False)


def serve() -> None:
    """Serve Terraform until it ends the process."""
    # Slow to import, and of no use to `mirror` and `--help`.
    from tf import runner  # noqa: PLC0415

    from terraform_provider_laneway.provider import Provider  # noqa: PLC0415

    provider = Provider()

    # `tf` has no types, and no public place for what StopProvider does; its version is pinned.
    class Stopper(runner._ShutdownInterceptor):  # type: ignore[misc]  # noqa: SLF001
        """Ends what runs when Terraform is interrupted, and answers with what there is then.

        That of `tf` would end the process, and Terraform would lose what had just been created.
        """

        def intercept_service(self, continuation: Any, called: Any) -> Any:
            if called.method == _STOP:
                provider.clusters.stop()
                return continuation(called)
            return super().intercept_service(continuation, called)

    _have_home()
    # Terraform takes each line of the standard error for a line of its log.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="[WARN] %(message)s")
    runner._ShutdownInterceptor = Stopper  # noqa: SLF001 - as above
    runner.run_provider(provider, ["terraform-provider-laneway"])


def _have_home() -> None:
    """`tf` keeps a certificate below the home folder, and does not start where it cannot.

    Then it gets a folder that lasts as long as this process. The kubeconfig stays where it is.
    """
    home = os.path.expanduser("~")
    try:
        os.makedirs(os.path.join(home, ".cache", "tf-python-provider"), exist_ok=True)
    except OSError:
        os.environ.setdefault("KUBECONFIG", os.path.join(home, ".kube", "config"))
        folder = tempfile.TemporaryDirectory(prefix="laneway-terraform-")
        atexit.register(folder.cleanup)
        os.environ["HOME"] = folder.name


if __name__ == "__main__":
    main()
