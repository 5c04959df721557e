"""What the service promises, and what it does not."""

import re
from pathlib import Path

import yaml

from servers.callers import Caller

ROOT = Path(__file__).parents[2]
PROMISES = re.compile(
    r"\bSLA\b|service[- ]level agreement|uptime guarantee|real-time (?:recognition|transcription)", re.I
)
OTHERS = re.compile(r"subtitle|\bocr\b|caption|editing[-_ ]plan|render", re.I)


def test_nothing_but_recognition_results_is_offered() -> None:
    """No path, parameter or field is about subtitles, editing plans, OCR or rendering (R5)."""
    description = yaml.safe_load((ROOT / "openapi.yaml").read_text("utf-8"))
    schemas = description["components"]["schemas"].values()
    fields = [name for schema in schemas for name in schema.get("properties", {})]

    assert [] == [name for name in [*description["paths"], *fields] if OTHERS.search(name)]


def test_no_real_time_recognition_and_no_service_level_is_promised() -> None:
    """Neither the API's description nor the README nor the guides promise one (R6)."""
    rules = ("requirements.md", "contract.md")  # They say that none is promised.
    guides = [file for file in sorted((ROOT / "docs").glob("*.md")) if file.name not in rules]
    files = [ROOT / "openapi.yaml", ROOT / "README.md", *guides]
    texts = {file.name: PROMISES.findall(file.read_text("utf-8")) for file in files}

    assert {} == {name: found for name, found in texts.items() if found}


def test_a_result_names_what_made_it(caller: Caller) -> None:
    """The artifact says which model at which revision made it, the same that the catalog lists (R218)."""
    ended = caller.wait(caller.submit())
    made = ended["artifacts"][0]["metadata"]
    listed = next(model for model in caller.get("/v1/models").json()["data"] if model["id"] == ended["model"])

    assert listed["engines"] == [{"model_id": made["model_id"], "model_revision": made["model_revision"]}]


def test_identical_speech_is_not_promised_where_it_could_be_expected() -> None:
    """Whoever reads about voices learns that an id fixes a recording and not the bytes of a run (R110)."""
    guide = " ".join((ROOT / "docs" / "voices.md").read_text("utf-8").split())

    assert "that two runs give byte-identical speech is not promised" in guide
