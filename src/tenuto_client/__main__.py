"""`python -m tenuto_client VERB …`: the verbs, where the `tenuto` command is not installed."""

import sys

from tenuto_client.commands import main

sys.exit(main(sys.argv[1:]))
