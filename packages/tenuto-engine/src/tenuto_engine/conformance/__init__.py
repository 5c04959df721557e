"""The conformance suite: what every engine must do, checked on the engine in a process of its own.

    python -m tenuto_engine.conformance PACKAGE

makes every check on each engine of an installed package. In a test:

    from tenuto_engine.conformance import examine, subjects

    def test_my_engine_conforms() -> None:
        (subject,) = subjects("my_engine", options={"pitch_hz": 440}).values()
        assert {} == {one.check.__name__: one.fault for one in examine(subject) if one.fault}

A check is a function of a Trial, for a test of its own: it returns if the engine passes, raises
`Nonconformance` (an AssertionError) if not, and `unittest.SkipTest`, which pytest understands, if it does not
apply. Nothing here knows the service; what the parameters of a kind are called is in `samples`.
"""

from tenuto_engine.conformance.checks import CHECKS, Check, Verdict, examine
from tenuto_engine.conformance.process import Nonconformance
from tenuto_engine.conformance.subject import Subject, subjects
from tenuto_engine.conformance.trial import Trial

__all__ = ["CHECKS", "Check", "Nonconformance", "Subject", "Trial", "Verdict", "examine", "subjects"]
