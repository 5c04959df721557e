"""Settings of telemetry."""

import re
from typing import Annotated, Any

from msgspec import Struct

from tenuto.config import setting
from tenuto.config.addresses import NONE
from tenuto.errors import Fault
from tenuto.rules import Form, Integer

_ENDPOINT = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/[A-Za-z0-9._~-]+)*/?\Z")
_ADDRESS = "an address such as http://127.0.0.1:4318"
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"


class _Endpoint(Struct, frozen=True):
    """An origin with an optional path, if OpenTelemetry is installed; or the word none."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        form = Form(_ADDRESS, lambda text: text == NONE or _ENDPOINT.match(text) is not None)
        if setting.read(form, param, value, faults) != NONE and not setting.are_installed(_EXPORTER):
            message = "OpenTelemetry is not installed; pip install 'tenuto[otel]' adds it"
            faults.append(setting.fault(param, message))
        return value


class TelemetrySettings(Struct, frozen=True):
    """Settings of telemetry."""

    worker_metrics_port: Annotated[
        int,
        Integer(0, 65_535),
        "{range}; where a worker answers `/metrics`, `/livez` and `/readyz`, at `metrics_host`; 0: nowhere",
    ] = 0
    otlp_endpoint: Annotated[
        str,
        _Endpoint(),
        "the base address of a collector, such as `http://127.0.0.1:4318`, that gets traces and metrics by"
        " OTLP over HTTP; needs the extra `otel`: see [tracing](tracing.md); `none`: nothing is sent",
    ] = NONE
