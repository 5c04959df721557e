"""Spans and metrics for the operator's collector. Knows no jobs: `trace` decides what a span says.

Any module may import `spans`; `otlp` imports OpenTelemetry (the extra `otel`), so only a process that exports
may import it.
"""
