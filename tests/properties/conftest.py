"""What the machine's modules assert is shown with its values, as in a test."""

import pytest

for module in ("model", "ground", "callers", "workers", "keepers"):
    pytest.register_assert_rewrite(f"properties.{module}")
