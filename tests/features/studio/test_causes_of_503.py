"""What answers of 503 are due to, as the metrics count them: no caller can bring about the service's own."""

import pytest

from tenuto import errors
from tenuto.api.errors import cause_of_503


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (errors.ModelUnavailable(), "model"),
        (errors.Unavailable("full", limit="hashing"), "limit"),
        (errors.Unavailable("full", limit="process_uploads"), "limit"),
        (caused(errors.ArtifactUnavailable(), errors.CorruptBlob()), "artifact"),
        (caused(errors.ArtifactUnavailable(), errors.ArtifactUnavailable()), "artifact"),
        (errors.CorruptBlob(), "artifact"),
        (caused(errors.ArtifactUnavailable(), errors.StoreUnreachable()), "service"),
        (errors.StoreUnreachable(), "service"),
        (errors.StorageFailed(), "service"),
        (errors.Swept(), "service"),
        (errors.Unavailable(), "service"),
        (errors.CommitUnknown(), "service"),
        (MemoryError(), "service"),
    ],
)
def test_each_503_has_a_cause(error: Exception, cause: str) -> None:
    """The store and the database are the service's; model, damaged file and limit are a caller's choice."""
    assert cause == cause_of_503(error)
