"""The callers' commands on a terminal and in a script: streams, exit codes, languages, shells."""

import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from client.conftest import JOB, SOUND, accepted, content, sound, succeeded, told
from servers.callers import Caller
from servers.receiver import Receiver
from servers.scripted import Reply, ScriptedService
from servers.service import TENUTO, RunningService
from tenuto.command import all_commands
from tenuto_client import commands
from tenuto_client.commands import completion, exits, local, words
from tenuto_client.commands.completion import VALUES
from tenuto_client.exchange import SystemClock

pytestmark = pytest.mark.variant("database", only="postgresql")

IMPATIENT = {"PYTHONPATH": str(Path(__file__).parent / "impatient")}
Run = Callable[..., tuple[int, str, str]]
MODEL = ("--model", "m")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a verb in this process, in a folder of the test's: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SystemClock, "sleep", lambda clock, seconds: time.sleep(min(seconds, 0.02)))
    words.is_chinese.cache_clear()

    def call(*line: str, url: str = "", key: str = "tn_test", **variables: str) -> tuple[int, str, str]:
        named = {"TENUTO_BASE_URL": url, "TENUTO_API_KEY": key, **variables}
        for name, value in named.items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        try:
            code = commands.main(line, all_commands())
        except SystemExit as end:
            code = int(end.code or 0)
        sys.stdout.flush()
        return (code, *capfd.readouterr())

    return call


@pytest.fixture
def at(service: RunningService, caller: Caller) -> dict[str, str]:
    """Where a verb is run, and as whom."""
    return {"url": service.url, "key": caller.key}


def test_data_goes_to_stdout_and_the_rest_to_stderr(
    run: Run, at: dict[str, str], caller: Caller, tmp_path: Path
) -> None:
    """A path, a transcript, an answer; lines about the work beside it, none of them when quiet."""
    said = run("say", "Hold the note.", "--speed", "1.25", "-o", "a.wav", **at)
    quiet = run("say", "音。", "-q", **at)
    drawn = run("draw", "[fake:warn]x", "--size", "256x320", "--seed", "7", "--json", **at)
    (tmp_path / "talk.wav").write_bytes(sound(2))
    heard = run("transcribe", "talk.wav", **at)
    subtitles = run("transcribe", "talk.wav", "-o", "talk.srt", "-q", **at)
    answer = run("chat", "two words", "-q", **at)
    balances = {
        run(*words, "-q", "balance", key=caller.key)
        for words in (("--url", at["url"]), (f"--url={at['url']}",))
    }
    fast, chinese = (parameters(caller, job) for job in reversed(speech(caller)))

    assert (0, "a.wav\n") == said[:2] and "queued" in said[2].split()
    assert ("en", 0.8, "zh") == (fast["lang"], fast["duration_factor"], chinese["lang"])
    assert (0, "") == (quiet[0], quiet[2]) and (tmp_path / quiet[1].strip()).read_bytes()[:4] == b"RIFF"
    job = json.loads(drawn[1])
    assert (256, 320, 7) == tuple(job["job"]["result"][name] for name in ("width", "height", "seed"))
    assert Path(job["file"]).read_bytes()[:4] == b"\x89PNG"
    assert "warning: the fake engine was told to warn\n" in drawn[2]
    assert 0 == heard[0] and heard[1].strip() and "uploading" in heard[2] and "language: en\n" in heard[2]
    assert (0, "talk.srt\n", "") == subtitles and " --> " in (tmp_path / "talk.srt").read_text()
    assert (0, "two words\n", "") == answer
    [(code, shown, told)] = balances
    assert (0, "") == (code, told) and shown.startswith("available\t")


def speech(caller: Caller) -> list[str]:
    """The ids of the speech jobs, newest first."""
    return [job["id"] for job in caller.get("/v1/jobs?kind=speech").json()["data"]]


def test_a_text_comes_from_a_word_a_file_or_stdin(
    run: Run, at: dict[str, str], caller: Caller, tmp_path: Path
) -> None:
    """White space at both ends is stripped, bytes that are not text are refused, the WAV can go to stdout."""
    (tmp_path / "text.txt").write_text("\ufeff\n from a file \n", "utf-8")
    (tmp_path / "latin.txt").write_bytes(b"\xff\xfe\x00")
    environment = os.environ | {"TENUTO_BASE_URL": at["url"], "TENUTO_API_KEY": caller.key, **IMPATIENT}
    piped = subprocess.run(
        [TENUTO, "say", "-", "-o", "-"], input=b" from stdin\n", env=environment, capture_output=True
    )
    run("say", "text.txt", **at)
    # Too long for the name of a file: the file system refuses even to look for one.
    run("say", "今天天气很好，我们去公园散步。" * 12, **at)
    wrong = run("say", "latin.txt", **at)
    empty = run("say", "  ", **at)
    long, *texts = [parameters(caller, job)["text"] for job in speech(caller)]

    assert long.startswith("今天")
    assert (0, b"RIFF") == (piped.returncode, piped.stdout[:4])
    assert ["from a file", "from stdin"] == texts
    assert (2, 2) == (wrong[0], empty[0]) and "UTF-8" in wrong[2]


def test_stdin_that_is_not_utf8_is_told_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text is refused; in a conversation, where another encoding was pasted, the user may ask again."""

    def terminal() -> io.TextIOWrapper:
        return io.TextIOWrapper(io.BytesIO("你好\n".encode("gbk")), "utf-8")

    monkeypatch.setattr(sys, "stdin", terminal())
    refused = run("say", "-", *MODEL, "-q", url="http://127.0.0.1:1")
    talking = terminal()
    monkeypatch.setattr(talking, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", talking)
    code, _, err = run("chat", *MODEL, url="http://127.0.0.1:1")

    assert (2, "", "tenuto: stdin is not UTF-8 text\n") == refused
    assert (0, "> stdin is not UTF-8 text\n> ") == (code, err.partition("quits\n")[2])


@pytest.mark.parametrize("line", [("say", "x", *MODEL), ("jobs", "download", JOB), ("voices", "show", "v")])
def test_a_pipe_is_not_replaced(run: Run, line: tuple[str, ...]) -> None:
    """Refused before a job is submitted; a regular file would take its place."""
    os.mkfifo("special")
    Path("link").symlink_to("special")
    voice = Reply(200, {"data": [{"voice_id": "voice_1", "kind": "own", "name": "v"}]})
    replies = [voice] if line[0] == "voices" else [succeeded()]
    with ScriptedService(replies * 2) as service:
        ended = [run(*line, "-o", name, url=service.url) for name in ("special", "link")]
        sent = [asked for asked in service.asked if asked.method == "POST"]

    assert [2, 2] == [code for code, _, _ in ended] and [] == sent
    assert "special is not a regular file; use - for stdout" in ended[0][2]
    assert Path("special").is_fifo() and Path("link").is_symlink()


def test_a_link_keeps_leading_to_its_file_whatever_the_length_of_its_name(run: Run) -> None:
    """As with `cp`: the file has the result. The temporary file beside it has a short name of its own."""
    name = "x" * 251 + ".wav"
    Path(name).write_bytes(b"")
    Path("link.wav").symlink_to(name)
    with ScriptedService([accepted(), succeeded(), content()]) as service:
        code, _, err = run("say", "x", *MODEL, "-o", "link.wav", url=service.url)

    assert (0, True, SOUND) == (code, Path("link.wav").is_symlink(), Path(name).read_bytes()), err
    assert ["link.wav", name] == sorted(path.name for path in Path().iterdir())


def test_voices_jobs_and_money_from_the_command_line(
    run: Run, at: dict[str, str], caller: Caller, tmp_path: Path
) -> None:
    (tmp_path / "mine.wav").write_bytes(sound())
    added = json.loads(run("voices", "add", "mine.wav", "--json", **at)[1])
    run("voices", "rename", "mine", "Hill", **at)
    spoken = run("say", "x", "--voice", "hill", "-o", "x.wav", **at)
    saved = run("voices", "get", "Hill", "-o", "hill.wav", **at)
    run("voices", "default", "Hill", "--for", "channel", **at)
    default = json.loads(run("voices", "default", "--json", **at)[1])
    listed = [line.split("\t") for line in run("voices", "list", "--kind", "own", **at)[1].splitlines()]
    removed = run("voices", "rm", "Hill", **at)
    unknown = run("say", "x", "--voice", "Hill", **at)
    [job] = speech(caller)
    jobs = run("jobs", "list", "--json", **at)
    shown = run("jobs", "get", job, **at)
    waited = run("jobs", "wait", job, **at)
    run("jobs", "download", job, "-o", "again.wav", **at)
    balance = run("balance", **at)
    ledger = run("balance", "--ledger", "1", "--json", **at)
    usage = json.loads(run("usage", "--json", **at)[1])

    assert (0, added["voice_id"] + "\n") == (spoken[0], removed[1])
    assert sound() == (tmp_path / "hill.wav").read_bytes() and saved[1] == "hill.wav\n"
    assert [{"for": "channel", "voice_id": added["voice_id"]}] == default
    assert [["voice", "kind", "name", "languages", "seconds"], "Hill"] == [listed[0], listed[1][2]]
    assert 2 == unknown[0] and "清音" in unknown[2]
    assert [job] == [one["id"] for one in json.loads(jobs[1])]
    assert "  succeeded" in shown[1] and "succeeded\n" == waited[1]
    assert (tmp_path / "x.wav").read_bytes() == (tmp_path / "again.wav").read_bytes()
    assert "available\theld\ttotal\tcurrency\n100.000000\t0.000000\t100.000000\tCNY\n" == balance[1]
    assert job == json.loads(ledger[1])[0]["job_id"] and 1 == usage[0]["jobs"]


def parameters(caller: Caller, job: str) -> Any:
    """What a job was asked."""
    return caller.get(f"/v1/jobs/{job}/request").json()["parameters"]


REFUSED = {"error": {"code": "some_code", "message": "No.", "request_id": "req_1"}}


@pytest.mark.parametrize(
    ("code", "line", "replies"),
    [
        (exits.FAILED, ("jobs", "wait", JOB), [told("cancelled")]),
        (exits.USAGE, ("say", "x", *MODEL, "-o", "no/such/x.wav"), []),
        (exits.USAGE, ("draw", "x", *MODEL, "-o", "x.gif"), []),
        (exits.USAGE, ("say", "chapter.txt", *MODEL), []),
        (exits.USAGE, ("say", "x", *MODEL, "-o", "/proc/x.wav"), []),
        (exits.RECOVERY, ("say", "x", *MODEL), [accepted(Retry_After="1"), told("recovery_required")]),
        (exits.USAGE, ("jobs", "wait", JOB, "--timeout", "nan"), []),
        (exits.AUTHENTICATION, ("balance",), [Reply(403, REFUSED)]),
        (exits.NETWORK, ("balance",), [Reply(503, REFUSED, {"Retry-After": "9999"})]),
        (exits.GAVE_UP, ("jobs", "wait", JOB, "--timeout", "0.2"), [told("running")]),
        (exits.CHECKSUM, ("voices", "get", "voice_1", "-o", "v.wav"), "voice"),
        (exits.CONFLICT, ("say", "x", *MODEL), [Reply(409, REFUSED, {"x-should-retry": "false"})]),
    ],
)
def test_exit_codes(code: int, line: tuple[str, ...], replies: Any, run: Run) -> None:
    """Each end has its own code and one line that names what to do or the request (R228)."""
    if replies == "voice":
        audio = {"media_type": "audio/wav", "size_bytes": 3, "sha256": "0" * 64}
        replies = [Reply(200, {"voice_id": "voice_1", "audio": audio}), content(b"abc")]
    with ScriptedService(replies or [Reply(500)]) as service:
        ended, out, err = run(*line, "-q", url=service.url)

    assert (code, "", 1) == (ended, out, err.count("\n"))
    assert err.startswith("tenuto: ") and "Traceback" not in err


def test_a_dead_service_is_told_after_some_tries(run: Run) -> None:
    """Exit code 5, and a line for every wait; the tries are limited (R224)."""
    code, _, err = run("balance", url="http://127.0.0.1:1")

    assert (5, ["1", "2"]) == (code, re.findall(r"^no answer .*; trying again in (\d+) s", err, re.MULTILINE))
    assert "in 1 s, giving up in about 3 s" in err and "in 2 s, for the last time" in err


def test_keys_are_asked_for_and_kept_for_their_address(
    run: Run, service: RunningService, caller: Caller, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tenuto(*line: str, given: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        return run(*line, key="")

    wrong = tenuto("login", service.url, given="tn_wrong\n")
    before = list(home.rglob("credentials.json"))
    right = tenuto("login", service.url, given=f"{caller.key}\n")
    who = json.loads(tenuto("whoami", "--json")[1])
    gone = tenuto("logout")
    after = tenuto("whoami", "--url", service.url)

    assert (4, [], 0, 0, 4) == (wrong[0], before, right[0], gone[0], after[0])
    assert (service.url, f"{caller.key[:6]}…{caller.key[-4:]}", 7) == (
        who["service"],
        who["key"],
        who["models"],
    )
    assert caller.key not in right[1] + right[2] + str(who)


def test_ctrl_c_says_how_to_go_on_and_resume_does(
    service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    """130, the commands that continue or end the job; `resume` brings the file (P9)."""
    environment = os.environ | {
        "TENUTO_BASE_URL": service.url,
        "TENUTO_API_KEY": caller.key,
        "TENUTO_JOURNAL": str(tmp_path / "journal"),
    }
    line = [TENUTO, "say", "[fake:sleep=2] Hold.", "-o", "out.wav"]
    process = subprocess.Popen(line, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "queued" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    listed = subprocess.run([TENUTO, "resume", "--list"], env=environment, capture_output=True, text=True)
    resumed = subprocess.run(
        [TENUTO, "resume"], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    [job] = speech(caller)

    assert 130 == process.returncode and f"tenuto jobs cancel {job}" in said and "Traceback" not in said
    assert job in listed.stdout
    assert (0, "out.wav\n") == (resumed.returncode, resumed.stdout)
    assert (tmp_path / "out.wav").is_file() and not list((tmp_path / "journal").iterdir())


def test_a_disk_that_is_full_keeps_the_work_for_later(run: Run, tmp_path: Path) -> None:
    """The job is not lost: the error names the file, `resume` saves it once there is space, and the thread
    that wrote the file has ended (R225)."""
    (tmp_path / "full").mkdir()
    sound = b"RIFF" + bytes(5_000_000)
    replies = [accepted(Retry_After="1"), succeeded(sound), content(sound)]
    threads = set(threading.enumerate())
    with ScriptedService(replies) as service:
        with files_of_at_most(2 << 20):
            code, out, err = run("say", "x", "--model", "m", "-o", "full/x.wav", url=service.url)
        left = list((tmp_path / "full").iterdir())
        writing = [each.name for each in set(threading.enumerate()) - threads if "_run" in each.name]
        service._replies[:] = [succeeded(sound), content(sound)]
        resumed = run("resume", url=service.url)

    assert (1, "", [], []) == (code, out, left, writing)
    assert (
        "full/x.wav: File too large → tenuto resume" in err and f"tenuto jobs download {JOB} -o FILE" in err
    )
    assert (0, "full/x.wav\n") == resumed[:2] and sound == (tmp_path / "full" / "x.wav").read_bytes()


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """This process cannot write a larger file meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes a program that plays sounds, of this script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def make(script: str) -> None:
        (tmp_path / "aplay").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "aplay").chmod(0o755)

    return make


def test_segments_are_played_as_one_sound(
    run: Run, at: dict[str, str], tmp_path: Path, player: Callable[[str], None]
) -> None:
    """A player gets the samples of all segments, joined. One that fails is named, and the file is saved, as
    on a machine without a sound card (R227)."""
    text = "Hold the note for its full value."
    player(f"cat > {tmp_path}/heard")
    code, _, err = run("say", text, "--play", "-o", "x.wav", **at)
    player("exec 0<&-; exit 1")
    failed = run("say", text * 20, "--play", "-o", "y.wav", **at)

    assert (0, 2) == (code, err.count("segment "))
    assert (tmp_path / "heard").read_bytes() == (tmp_path / "x.wav").read_bytes()[44:]
    assert (0, "y.wav\n", 1) == (*failed[:2], failed[2].count("aplay failed to play"))
    assert (tmp_path / "y.wav").is_file()


@pytest.mark.parametrize(
    ("typed", "asked", "found"),
    [
        ("tenuto tr", "", {"transcribe"}),
        ("tenuto say --lang ", "", {"zh", "en", "ja", "es", "ar"}),
        ("tenuto admin accounts cre", "", {"create", "credit"}),
        ("tenuto transcribe so", "", {"song.flac"}),
        ("tenuto say x --voice Nar", "voices", {"Narrator"}),
        ("tenuto admin keys create --account N", "accounts", {"Narrator"}),
    ],
)
def test_bash_completes_verbs_options_values_and_files(
    typed: str, asked: str, found: set[str], run: Run, tmp_path: Path
) -> None:
    """The script that `completion bash` prints, run by bash. For values of the service it asks
    `tenuto completion --values`, here a stand-in that notes what it is asked."""
    (tmp_path / "song.flac").touch()
    stand_in = tmp_path / "bin" / "tenuto"
    stand_in.parent.mkdir()
    stand_in.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho Narrator\necho other\necho x >&2\n')
    stand_in.chmod(0o755)
    (tmp_path / "asked").write_text("")
    words_typed = typed.split(" ")
    line = (
        f"COMP_WORDS=({' '.join(map(repr, words_typed))}); COMP_CWORD={len(words_typed) - 1}; _shtab_tenuto"
    )
    script = f'{run("completion", "bash")[1]}\n{line}; printf "%s\n" "${{COMPREPLY[@]}}"'
    path = f"{stand_in.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )

    assert (found, "") == (set(done.stdout.split()), done.stderr)
    assert (f"completion --values {asked}\n" if asked else "") == (tmp_path / "asked").read_text()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Completion waits as long as a busy machine takes, and finds the operator's accounts."""
    monkeypatch.setattr(completion, "PATIENCE_S", 600.0)
    monkeypatch.setattr(local, "_FINDERS", ["tenuto.features.help.local"])


@pytest.mark.usefixtures("patient")
def test_values_are_completed_as_the_service_has_them(
    run: Run, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    at = {"url": service.url, "key": caller.key, "TENUTO_DATA": str(service.folder)}
    at |= {"TENUTO_DATABASE": service.database_url} if service.database_url else {}
    (tmp_path / "v.wav").write_bytes(sound(2))
    ids = [
        json.loads(run("voices", "add", "v.wav", "--name", name, "--json", **at)[1])["voice_id"]
        for name in ("Narrator", "Two words")
    ]
    job_id = caller.submit()
    shown = {kind: run("completion", "--values", kind, **at) for kind in VALUES}
    found = {kind: out.split() for kind, (_, out, _) in shown.items()}

    assert {(0, "")} == {(code, err) for code, _, err in shown.values()}
    assert {"Narrator", ids[1]} <= {*found["voices"]} and ids[0] not in found["voices"]
    assert {*ids} <= {*found["voice-ids"]} and "fake/speech" in found["models"]
    assert [job_id] == found["jobs"] and found["accounts"]


def test_webhooks_at_a_terminal(run: Run, at: dict[str, str]) -> None:
    receiver = Receiver()
    code, out, err = run("webhooks", "add", receiver.url, "--description", "x", **at)
    [hook] = re.findall(r"webhook_\w+", out)
    secret = json.loads(run("webhooks", "rotate", hook, "--json", **at)[1])["secret"]
    tested = json.loads(run("webhooks", "test", hook, "--json", **at)[1])["id"]
    receiver.wait(1)
    again = run("webhooks", "redeliver", hook, tested, **at)
    receiver.wait(2)
    states = [run("webhooks", verb, hook, **at)[1] for verb in ("disable", "enable")]
    listed = run("webhooks", "list", **at)[1]
    page = run("webhooks", "deliveries", hook, "-n", "1", **at)[1]
    removed = run("webhooks", "remove", hook, **at)
    receiver.close()

    assert 0 == code and "whsec_" in out and "not shown again" in err
    assert secret not in listed + "".join(states)
    assert 0 == again[0] and tested in again[1] and tested in page
    assert "state: disabled" in states[0] and "state: enabled" in states[1]
    assert f"{hook}\tenabled\tjob.succeeded,job.failed,job.cancelled\t{receiver.url}" in listed
    assert (0, f"{hook}\n") == removed[:2]
    assert exits.USAGE == run("webhooks", "show", hook, **at)[0]


@pytest.mark.usefixtures("patient")
def test_nothing_is_completed_and_said_where_nothing_answers(run: Run, tmp_path: Path) -> None:
    at = {"TENUTO_DATA": str(tmp_path / "none"), "XDG_CONFIG_HOME": str(tmp_path)}
    shown = {run("completion", "--values", kind, url="http://127.0.0.1:1", **at) for kind in VALUES}

    assert {(0, "", "")} == shown and [] == [*tmp_path.iterdir()]


def test_a_slow_service_is_not_waited_for() -> None:
    """Whoever pressed Tab goes on typing: it ends by itself, silently, although nothing ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        environment = os.environ | {"TENUTO_BASE_URL": url, "TENUTO_API_KEY": "tn_test"}
        words = [TENUTO, "completion", "--values", "voices"]
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)

    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_completion_is_installed_where_the_shell_looks(run: Run, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": "", "BASH_COMPLETION_USER_DIR": ""}
    named = run("completion", "bash", "--install", **home, SHELL="/usr/bin/fish")
    own = [run("completion", "--install", **home, SHELL="/usr/bin/fish") for _ in range(2)]
    unknown = run("completion", "--install", **home, SHELL="/bin/dash")
    bash = tmp_path / ".local/share/bash-completion/completions/tenuto"
    fish = tmp_path / ".config/fish/completions/tenuto.fish"

    assert [(0, f"{path}\n") for path in (bash, fish, fish)] == [each[:2] for each in (named, *own)]
    assert {bash, fish} == {path for path in tmp_path.rglob("*") if path.is_file()}
    assert "_shtab_tenuto" in bash.read_text()
    assert (1, "tenuto: say which shell: bash, zsh, fish\n") == (unknown[0], unknown[2])


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_read_their_scripts(shell: str, run: Run) -> None:
    code, script, _ = run("completion", shell)

    assert 0 == code and not [
        path for path in commands.paths(all_commands()) if path.split()[-1] not in script
    ]
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        assert (0, "") == (done.returncode, done.stderr)
