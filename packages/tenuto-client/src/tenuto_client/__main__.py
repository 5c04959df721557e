"""`python -m tenuto_client COMMAND …`: the commands, if `tenuto` is not on the PATH."""

import sys

try:
    from tenuto_client.commands import main

    code = main(sys.argv[1:])
except KeyboardInterrupt:
    # Interrupted before a command started; a command reports its own interruption.
    code = 130
sys.exit(code)
