"""How Tenuto's own models are made. Needs torch, which nothing else here does; see each model's README."""

import os

# ONNX Runtime reads it when it is imported; nothing of Tenuto is installed here, which would set it.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
