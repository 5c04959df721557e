"""Spans and metrics for the operator's collector. Knows no jobs: `trace` decides what a span says.

`otlp` imports OpenTelemetry (the extra `otel`), so only a process that exports may import it.
"""
