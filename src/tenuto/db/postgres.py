"""Tenuto's records in PostgreSQL."""

from tenuto.db.database import Database
from tenuto.errors import OperatorError


def open_postgres(url: str) -> Database:
    raise OperatorError("PostgreSQL comes with the next change.")
