"""Which copy of the database is in use: that with the highest generation. Knows no connections.

After a failover, an old primary that comes back takes writes like the new one, and has the same tables.
"""

from msgspec import Struct


class Outdated(Exception):
    """A server holds a copy of the database that is not the one in use; nothing was written to it."""


class Copy(Struct, frozen=True):
    """What tells a copy of the database from the others. The store of bytes records that of the newest."""

    system: str
    """The server's system identifier, which a primary shares with its standbys; empty if it tells none."""
    acceptance: int
    """How often an operator has accepted another copy: a restored one, for example."""
    timeline: int
    """Raised by PostgreSQL with each promotion."""
    epoch: int
    """Raised by each start of a process: of two copies with one timeline, that in use has the higher one."""

    @property
    def generation(self) -> tuple[int, int, int]:
        return self.acceptance, self.timeline, self.epoch

    def fault(self, newest: "Copy") -> str | None:
        """Why it must not be used while `newest` is the newest copy that is known; None: it may."""
        if self.generation < newest.generation:
            return (
                f"{self._place()}, and {newest._place()} is in use: it is an old primary, or a restored copy"
            )
        is_other = self.system and newest.system and self.system != newest.system
        if is_other and self.acceptance == newest.acceptance:
            return f"the system identifier {self.system}, and {newest.system} is in use"
        return None

    def _place(self) -> str:
        accepted = f"acceptance {self.acceptance}, " if self.acceptance else ""
        return f"{accepted}timeline {self.timeline}, epoch {self.epoch}"
