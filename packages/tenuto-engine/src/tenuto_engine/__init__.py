"""What an engine imports, and what runs it in its own interpreter: the far end of a host.

It needs only the standard library of Python 3.9 or newer, and knows nothing about jobs, accounts or
databases.
"""

from tenuto_engine.engine import Cancelled, Engine, EngineError, InputError, OutcomeUnknown, Result, Run

__all__ = ["Cancelled", "Engine", "EngineError", "InputError", "OutcomeUnknown", "Result", "Run"]
