"""The studio's own checks, run where its packages are installed: types, messages, tests of its modules."""

import re
import shutil
import subprocess

import pytest
from scripts import pictogram_names

from features.studio.browser.browser import ROOT
from tenuto_kokoro.zh_pinyin import SYLLABLES

STUDIO = ROOT / "studio"


@pytest.mark.variant("page")
@pytest.mark.parametrize("script", ["check", "test"])
def test_the_studios_own_checks_pass(script: str) -> None:
    """svelte-check finds nothing, and vitest's tests of the pure modules pass."""
    if shutil.which("npm") is None or not (STUDIO / "node_modules").exists():
        pytest.skip("the studio's packages are not installed; `make setup` does that where Node.js is there")
    done = subprocess.run(
        ["npm", "run", "--silent", script], cwd=STUDIO, capture_output=True, text=True, timeout=240
    )

    assert 0 == done.returncode, done.stdout + done.stderr


def test_the_lint_knows_the_syllables_that_the_model_knows() -> None:
    """The list of syllables in the studio is that of the speech model."""
    text = (STUDIO / "src" / "lib" / "syllables.ts").read_text("utf-8")
    listed = re.search(r"`(.*?)`", text, re.DOTALL)

    assert listed is not None
    assert set(SYLLABLES) == set(listed[1].split())


def test_the_lock_names_no_host_and_nothing_runs_when_it_is_installed() -> None:
    """What is installed is fixed by hashes, wherever it comes from, and no package runs a script."""
    lock = (STUDIO / "package-lock.json").read_text("utf-8")
    settings = (STUDIO / ".npmrc").read_text("utf-8")

    assert '"resolved"' not in lock
    assert len(re.findall(r'"node_modules/[^"]+": \{', lock)) == lock.count('"integrity"')
    assert "ignore-scripts=true" in settings


def test_the_studio_lists_what_the_pictogram_model_draws() -> None:
    """Its page searches the file that `scripts/pictogram_names.py` writes from the engine's list."""
    assert pictogram_names.text() == pictogram_names.WRITTEN.read_text("utf-8")
