"""What answers of 503 are due to, as the metrics count them: no caller can bring about the service's own."""

import pytest

from features.studio.browsers import Studio
from tenuto import errors
from tenuto.api.errors import cause_of_503
from tenuto.features.telemetry.api_metrics import ApiMetrics


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


def test_a_flood_for_a_model_that_is_away_is_not_the_services_fault(studio: Studio) -> None:
    """Neither are probes that anybody may send; the alert TenutoUnavailable hears of none of them."""
    browser = studio.person("me")
    asked = {"model": "fake/speech", "parameters": {"text": "Is anybody there?"}}
    answers = [
        browser.post("/web/v1/jobs", asked, **{"Idempotency-Key": f"key-{number}"}) for number in range(3)
    ]
    counted = {
        sample.labels["cause"]: sample.value
        for metric in studio.service.part(ApiMetrics).registry.collect()
        for sample in metric.samples
        if sample.name == "tenuto_http_unavailable_total"
    }

    assert ["model_unavailable"] * 3 == [answer.json()["error"]["code"] for answer in answers]
    assert {"service": 0, "model": 3, "artifact": 0, "limit": 0, "probe": 0} == counted
