"""Our end of a host: the process in which one engine lives, and how a run is handed to it."""
