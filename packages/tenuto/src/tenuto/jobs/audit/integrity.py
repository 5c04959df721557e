"""What the database finds wrong with itself, as findings of the audit. Knows neither database."""

from collections.abc import Callable

from tenuto.db import integrity
from tenuto.db.database import Database
from tenuto.jobs.audit.check import Finding

CHECK = "database_damaged"
_WHAT = "the database's own check finds it damaged"
_REMEDY = (
    "stop the service, keep a copy of the database, and restore the newest backup;"
    " docs/operations/audit.md says what to do where only an index is damaged"
)


def findings(
    database: Database, *, deep: bool, stopping: Callable[[], bool] = lambda: False
) -> list[Finding]:
    """Every damaged table and index; see `db.integrity.faults`."""
    return [
        Finding(CHECK, fault.subject, _WHAT, _REMEDY, {"fault": fault.what})
        for fault in integrity.faults(database, deep=deep, stopping=stopping)
    ]
