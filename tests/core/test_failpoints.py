"""Failpoints: what arms them, and how often they act."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenuto import failpoints
from tenuto.errors import SettingsInvalid

PLACE, OTHER = "blob.before_fsync", "blob.before_rename"


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    """What a test arms ends with it."""
    yield
    failpoints.arm("")


def outcome(place: str) -> str | None:
    """What a visit brings: the name of the error that was raised, or nothing."""
    try:
        failpoints.hit(place)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return None


def put(folder: Path, place: str, shot: str) -> None:
    """Arm a place of a folder in one step."""
    (folder / "new").write_text(shot)
    (folder / "new").rename(folder / place)


def test_a_listed_shot_acts_once_at_its_visit() -> None:
    """`name:nth:action`: the nth visit alone, at that place alone."""
    failpoints.arm(f"{PLACE}:2:raise=ENOSPC,{PLACE}:4:raise=EIO")
    visits = [outcome(place) for place in (PLACE, OTHER, PLACE, PLACE, PLACE, PLACE)]

    assert [None, None, "ENOSPC", None, "EIO", None] == visits


def test_a_shot_of_a_folder_acts_once_and_tells_who_it_was(tmp_path: Path) -> None:
    """It may be laid while the process runs; who acts has moved it away; laid anew, it counts anew."""
    failpoints.arm(str(tmp_path))
    before = outcome(PLACE)
    put(tmp_path, PLACE, "2:raise=EIO")
    visits = [outcome(PLACE) for _ in range(3)]
    left = [path.name.rpartition(".")[0] for path in (tmp_path / failpoints.FIRED).iterdir()]
    put(tmp_path, PLACE, "1:raise=ENOSPC")

    assert [None, None, "EIO", None, "ENOSPC"] == [before, *visits, outcome(PLACE)]
    assert [PLACE] == left


@pytest.mark.parametrize(
    "text",
    [
        *("nowhere:1:kill", f"{PLACE}:0:kill", f"{PLACE}:x:kill", f"{PLACE}:1", f"{PLACE}:1:explode"),
        *(f"{PLACE}:1:raise", f"{PLACE}:1:raise=ENONSENSE", f"{PLACE}:1:delay=soon", f"{PLACE}:1:raise=EXIT"),
    ],
)
def test_what_cannot_be_armed_is_refused(text: str) -> None:
    """At the start, with the variable's name and what would be right: a typing error tests nothing."""
    with pytest.raises(SettingsInvalid) as caught:
        failpoints.arm(text)

    assert "TENUTO_FAILPOINT" in caught.value.message
