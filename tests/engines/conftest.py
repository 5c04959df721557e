"""Engines that a module's tests share in our own process: they end with the module, not with the run."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest


@pytest.fixture(autouse=True, scope="module")
def engines_end(request: pytest.FixtureRequest) -> Iterator[None]:
    """Half a gigabyte or one for each engine would add up to more than the service itself ever takes."""
    yield
    was_loaded = False
    for shared in vars(request.module).values():
        made_by = getattr(getattr(shared, "__wrapped__", None), "__module__", "")
        # The module itself, or one beside it whose engine it borrows.
        is_ours = made_by == request.module.__name__ or made_by.startswith("engines.")
        if is_ours and hasattr(shared, "cache_clear"):
            was_loaded = was_loaded or shared.cache_info().currsize > 0
            shared.cache_clear()
    if not was_loaded:
        return
    gc.collect()
    # The C library keeps what was freed; other libraries than glibc have no such word.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
