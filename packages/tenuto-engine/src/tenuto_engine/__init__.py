"""What an engine imports, and what runs it in its own interpreter: the far end of a host.

It needs only the standard library of Python 3.9 or newer, and knows nothing about jobs, accounts or
databases. Whoever imports it is about to load a model, so libraries that are imported later report nothing.
"""

import os

from tenuto_engine import network
from tenuto_engine.engine import Cancelled, Engine, EngineError, InputError, OutcomeUnknown, Result, Run

network.silence(os.environ)

__all__ = ["Cancelled", "Engine", "EngineError", "InputError", "OutcomeUnknown", "Result", "Run"]
