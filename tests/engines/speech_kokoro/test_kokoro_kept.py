"""What takes long to make, kept for the next load: whole or not at all."""

import os
from pathlib import Path

import pytest

from tenuto_kokoro.kept import ABANDONED_S, HASH_BYTES, MOST_FILES, Kept

DEPENDS_ON = ["weights", "1.0", "avx2"]
CONTENT = memoryview(bytes(range(256)) * 40)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "folder", DEPENDS_ON)
    assert kept.read() is None
    for _ in range(2):
        kept.write(CONTENT)

    assert CONTENT == Kept(tmp_path / "folder", DEPENDS_ON).read()
    assert [kept.path] == list((tmp_path / "folder").iterdir())


def test_other_circumstances_have_a_content_of_their_own(tmp_path: Path) -> None:
    """Another processor or version; its file under this name is not taken for this one's either."""
    mine, other = Kept(tmp_path, DEPENDS_ON), Kept(tmp_path, ["weights", "1.1", "avx2"])
    other.write(CONTENT)
    assert mine.read() is None
    other.path.rename(mine.path)

    assert mine.read() is None


@pytest.mark.parametrize("damage", ["cut", "empty", "only a hash", "longer", "first", "middle", "hash"])
def test_a_damaged_file_is_not_read(tmp_path: Path, damage: str) -> None:
    kept = Kept(tmp_path, DEPENDS_ON)
    kept.write(CONTENT)
    whole = bytearray(kept.path.read_bytes())
    at = {"first": 0, "middle": len(whole) // 2, "hash": len(whole) - 1}
    sizes = {"cut": len(whole) - 1, "empty": 0, "only a hash": HASH_BYTES - 1}
    if damage in at:
        whole[at[damage]] ^= 1
    kept.path.write_bytes(whole[: sizes.get(damage)] + (b"\0" if damage == "longer" else b""))
    assert kept.read() is None
    kept.write(CONTENT)

    assert CONTENT == kept.read()


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a file").write_bytes(b"")
    with pytest.raises(OSError):
        Kept(tmp_path / "a file", DEPENDS_ON).write(CONTENT)
    kept = Kept(tmp_path, DEPENDS_ON)
    kept.path.mkdir()
    with pytest.raises(OSError):
        kept.write(CONTENT)

    assert {"a file", kept.path.name} == {path.name for path in tmp_path.iterdir()}


def test_what_was_not_used_for_long_is_removed(tmp_path: Path) -> None:
    """Reading is use. So is what processes left that died while they wrote."""
    every = [Kept(tmp_path, [str(number)]) for number in range(MOST_FILES + 1)]
    for age, kept in enumerate(every[:-1], 1):
        kept.write(CONTENT)
        os.utime(kept.path, (now := kept.path.stat().st_mtime - 60 * age, now))
    left, recent = tmp_path / "left.partial", tmp_path / "recent.partial"
    for path, age in ((left, ABANDONED_S + 60), (recent, 0)):
        path.write_bytes(b"")
        os.utime(path, (now := path.stat().st_mtime - age, now))
    oldest, second = every[-2], every[-3]
    assert CONTENT == oldest.read()
    every[-1].write(CONTENT)

    assert [True, False] == [oldest.path.exists(), second.path.exists()]
    assert [False, True] == [left.exists(), recent.exists()]
