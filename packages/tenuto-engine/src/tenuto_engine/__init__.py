"""The far end of a host: what an engine imports, and what runs it in its own interpreter.

Only the standard library, Python 3.9 or newer. Nothing here knows jobs, accounts, databases or `tenuto`.
"""

from tenuto_engine.engine import Cancelled, Engine, EngineError, InputError, OutcomeUnknown, Result, Run

__all__ = ["Cancelled", "Engine", "EngineError", "InputError", "OutcomeUnknown", "Result", "Run"]
