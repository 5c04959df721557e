"""`python -m tenuto_client VERB …`: the verbs, where the `tenuto` command is not installed."""

import sys

try:
    from tenuto_client.commands import main

    code = main(sys.argv[1:])
except KeyboardInterrupt:
    # Nothing was begun yet; a verb tells of what it began.
    code = 130
sys.exit(code)
