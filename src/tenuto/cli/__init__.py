"""The operator's command line: `tenuto serve`, `accounts`, `keys`, `models`, `recover`, `audit`, `doctor`.

Each command loads settings, opens what it needs, calls operations and prints. Results go to stdout,
everything else to stderr; 0 is success, 1 a failure, 2 a wrong command line.
"""

import sys

from tenuto.errors import TenutoError


def main() -> None:
    """The entry point of the `tenuto` command."""
    from cyclopts import CycloptsError

    from tenuto.cli.app import app

    try:
        # Its own way of telling an error is a box of several lines, cut to the width of the terminal.
        app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        print(f"tenuto: {error} (see tenuto --help)", file=sys.stderr)
        sys.exit(2)
    except TenutoError as error:
        print(f"tenuto: {error.message}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
