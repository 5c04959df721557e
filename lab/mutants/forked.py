"""Runs tests once for each mutant, in processes forked from one that has collected them; no file is changed.

A mutant is of one function, so its code is exchanged in the process that tries it (as in `tests/simulation`).
"""

import contextlib
import importlib
import inspect
import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from lab.mutants.generated import SOURCES, Name, Part, mutated

SURVIVED, GONE = "survived", "gone"
HANGS = "hangs"
PROCESSOR_S = 400
"""Who takes longer, and twice as long as without a mutant, hangs, and that is seen."""
Tell = Callable[[Name, str], None]


class Trial:
    """A plugin of pytest: instead of running what was collected it forks for each mutant."""

    def __init__(self, names: list[Name], root: Path, jobs: int, tell: Tell) -> None:
        self.names, self.root, self.jobs, self.tell = names, root, jobs, tell
        self.failed: str | None = None
        self.is_sound = False
        self.processor_s = 3 * PROCESSOR_S

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid.partition("[")[0]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The tests pass without any mutant; then each mutant meets them until one fails."""
        seen = dict(self._outcomes(session, [None]))[None]
        self.is_sound = seen == SURVIVED
        if not self.is_sound:
            print(f"{seen} without any mutant: these tests can tell nothing", file=sys.stderr)
            return True
        self.processor_s = max(PROCESSOR_S, 2 * int(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime))
        for name, outcome in self._outcomes(session, list(self.names)):
            if name is not None:
                self.tell(name, outcome)
        return True

    def _outcomes(
        self, session: pytest.Session, waiting: list[Name | None]
    ) -> Iterator[tuple[Name | None, str]]:
        """Several at once, each in a process."""
        running: dict[int, tuple[Name | None, int]] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                name = waiting.pop(0)
                read, written = os.pipe()
                if (pid := os.fork()) == 0:
                    self._try(session, name, written)
                os.close(written)
                running[pid] = name, read
            pid, _ = os.waitpid(-1, 0)
            if pid in running:
                name, read = running.pop(pid)
                with os.fdopen(read) as said:
                    yield name, said.read() or HANGS

    def _try(self, session: pytest.Session, name: Name | None, written: int) -> None:
        """In a process of its own: never returns."""
        resource.setrlimit(resource.RLIMIT_CPU, (self.processor_s, self.processor_s))
        with contextlib.suppress(BaseException), Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 1)
            os.dup2(nothing.fileno(), 2)
            if name is not None and not exchange(name, self.root):
                os.write(written, GONE.encode())
                os._exit(0)
            for item, following in zip(session.items, [*session.items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.failed is not None:
                    break
            os.write(written, (self.failed or SURVIVED).encode())
        os._exit(0)


def run(part: Part, names: list[Name], root: Path, *, jobs: int, is_wide: bool, tell: Tell) -> bool:
    """Try these mutants of a part; False: its tests fail without any."""
    trial = Trial(names, root, jobs, tell)
    arguments = ["-n", "0", "-m", "unit or adversity", "-k", "not postgresql and not mutant"]
    pytest.main([*arguments, *part.tests, *(part.wider if is_wide else ())], plugins=[trial])
    return trial.is_sound


def exchange(name: Name, root: Path) -> bool:
    """Give the function the code of the mutant; False: there is none such."""
    made = mutated(name, root)
    if made is None:
        return False
    path, text = made
    module = importlib.import_module(
        f"tenuto.{'.'.join(path.relative_to(root / SOURCES).with_suffix('').parts)}"
    )
    changed = ModuleType(module.__name__)
    changed.__file__ = module.__file__
    sys.modules[module.__name__] = changed  # Classes of msgspec and dataclasses look their module up.
    try:
        exec(compile(text, str(path), "exec"), changed.__dict__)
    finally:
        sys.modules[module.__name__] = module
    function, new = _function(module, name.function), _function(changed, name.function)
    if function.__code__ == new.__code__:
        return False
    function.__code__ = new.__code__
    return True


def _function(module: ModuleType, qualified: str) -> FunctionType:
    """A function or method by its name, under what decorates it."""
    found: Any = module
    for part in qualified.split("."):
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    found = inspect.unwrap(found)
    if not isinstance(found, FunctionType):
        raise TypeError(f"{qualified} of {module.__name__} is no function")
    return found
