"""stdout that is full, closed, left, or of an encoding without Chinese: one line at most, no traceback."""

import os
import subprocess

import pytest

from servers.service import TENUTO


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        ("> /dev/full", (1, "", "tenuto: stdout: No space left on device\n")),
        (">&-", (0, "", "")),
    ],
)
def test_a_stdout_that_takes_nothing_is_told_in_one_line(behind: str, expected: tuple[int, str, str]) -> None:
    """Who has no stdout wants none."""
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    shell = ["bash", "-c", f"'{TENUTO}' admin adapters {behind}"]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True)

    assert expected == (done.returncode, done.stdout, done.stderr)


def test_a_reader_that_has_gone_is_no_reason_for_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([TENUTO], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)

    assert (141, "") == (done.returncode, done.stderr)


def test_letters_that_the_encoding_lacks_are_written_as_their_numbers() -> None:
    environment = os.environ | {"LC_ALL": "zh_CN.UTF-8", "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([TENUTO, "-h"], env=environment, capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr)
    assert "\\u4fdd\\u5b58" in done.stdout
