"""What is a result of recognition, when an operator supplies it: JSON about the job's own input."""

import json
from typing import Any

from tenuto import strict_json
from tenuto.catalog.kinds import SuppliedResult
from tenuto.errors import InvalidRequest, OperatorError

MEDIA_TYPE = "application/json"
SCHEMA_VERSION = 1


def supplied(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    """Charged by the duration of the input, which was measured when it was uploaded. Raises OperatorError."""
    bound = parameters["input"]
    try:
        value = strict_json.parse(content)
    except InvalidRequest as error:
        raise OperatorError(f"the file is no result of a recognition job: {error.message}") from error
    expected = {"schema_version": SCHEMA_VERSION, "source_artifact_id": bound["artifact_id"]}
    if type(value) is not dict or any(value.get(name) != right for name, right in expected.items()):
        raise OperatorError(
            f"the file is no result of this recognition job: a JSON object with {json.dumps(expected)}"
        )
    metadata = {"schema_version": SCHEMA_VERSION, "duration_ms": bound["duration_ms"]}
    return SuppliedResult(content, MEDIA_TYPE, metadata, bound["duration_ms"])
