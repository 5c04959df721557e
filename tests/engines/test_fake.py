"""The fake engine that is charged for, as a worker sees it: tests of money count the lines of its journal."""

import os
import sys
from pathlib import Path

import pytest

from tenuto.features.fakes.entries import FOLDER
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec, HostLost, OutcomeUnknown


@pytest.mark.parametrize(
    ("directive", "error"), [("", None), ("[fake:unknown]", OutcomeUnknown), ("[fake:crash]", HostLost)]
)
def test_a_metered_call_is_noted_before_it_can_fail(
    tmp_path: Path, directive: str, error: type[Exception] | None
) -> None:
    journal, raised = tmp_path / "journal", None
    options = {"journal": os.fspath(journal)}
    host = ChildHost(EngineSpec("fake_speech:FakeMetered", sys.executable, options, folder=FOLDER))
    info = host.load()
    try:
        host.run(
            {"text": f"{directive}hello"},
            {},
            on_segment=lambda content, metadata: None,
            on_progress=lambda progress: None,
            deadline_s=30.0,
            run_id="attempt_1",
        )
    except (OutcomeUnknown, HostLost) as caught:
        raised = type(caught)
    host.close()

    assert error is raised
    assert "attempt_1\n" == journal.read_text()
    assert ("fake/metered-speech", False) == (info["model_id"], info["rerunnable"])
