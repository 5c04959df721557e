"""Read once, when it is first imported, as the hub's client does."""

import os

HF_HUB_CACHE = os.environ.get("HF_HUB_CACHE", "the user's own")
