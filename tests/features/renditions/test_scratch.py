"""Files for what is sent slowly: how much of them there may be, and where."""

from pathlib import Path

import pytest

from tenuto.errors import RateLimited, StorageFailed, Unavailable
from tenuto.features.renditions import scratch
from tenuto.features.renditions.scratch import IN_MEMORY_BYTES, SHARES, STEP_BYTES, Scratch

LARGE = bytes(IN_MEMORY_BYTES + 1)


def files_below(folder: Path) -> list[str]:
    links = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return [target for target in links if target.startswith(str(folder))]


def test_a_file_lies_without_a_name_in_the_data_folder(tmp_path: Path) -> None:
    """From a certain size on; it is empty at first, can be read back, and is gone with its context."""
    files = Scratch(tmp_path, 2 * STEP_BYTES)
    with files.file("one") as file:
        before = files_below(tmp_path)
        file.write(LARGE)
        file.write(b"end")
        during = files_below(tmp_path)
        file.seek(0)
        content = file.read()

    assert ([], 1, []) == (before, len(during), files_below(tmp_path))
    assert LARGE + b"end" == content
    assert [] == list(tmp_path.iterdir())


def test_an_account_and_a_process_have_so_much(tmp_path: Path) -> None:
    """Small ones are free; what ended, even by a refusal, is given back (P14)."""
    files = Scratch(tmp_path, STEP_BYTES)
    accounts = [str(number) for number in range(SHARES + 1)]
    for _ in range(2):
        open_files = [files.file(account) for account in accounts]
        written = [each.__enter__() for each in open_files]
        for each in written[:SHARES]:
            each.write(LARGE)
        with files.file("0") as second:
            second.write(LARGE[2:])
            with pytest.raises(RateLimited) as account:
                second.write(LARGE)
        with pytest.raises(Unavailable) as process:
            written[SHARES].write(LARGE)
        for opened in open_files:
            opened.__exit__(None, None, None)

        assert ("scratch", "process_scratch") == (account.value.limit, process.value.limit)


def test_some_of_the_disk_stays_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For jobs and the database."""
    monkeypatch.setattr(scratch, "MIN_FREE_BYTES", 1 << 60)
    with Scratch(tmp_path, STEP_BYTES).file("one") as file, pytest.raises(StorageFailed):
        file.write(LARGE)
