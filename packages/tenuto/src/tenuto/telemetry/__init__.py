"""Spans and metrics for a collector of the operator's. It knows no job: what a span says, `jobs.trace` knows.

`spans` is what everybody may import; `otlp` imports OpenTelemetry (the extra `otel`), so that only a process
that exports may import it.
"""
