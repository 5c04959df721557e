"""Settings: where they come from, who wins, and that every wrong one is named at once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto import config
from tenuto.config import ModelSettings, OwnPrice, RaySettings, Settings
from tenuto.errors import SettingsInvalid
from tenuto.kind.kinds import slots


def write(folder: Path, text: str) -> Path:
    file = folder / "tenuto.toml"
    file.write_text(text, encoding="utf-8")
    return file


def faults(
    environment: dict[str, str] | None = None, *, file: Path | None = None, **options: object
) -> list[str]:
    """Every fault that is named, one a line."""
    with pytest.raises(SettingsInvalid) as caught:
        config.load(environment or {}, file=file, options=options)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_everything_has_a_default() -> None:
    """Nothing has to be set; the folder lies where the command was given."""
    settings = config.load({})

    assert (Path("tenuto-data"), "sqlite:///tenuto.db", "127.0.0.1", 8080) == (
        settings.folder,
        settings.database,
        settings.host,
        settings.port,
    )
    assert {"speech": 1, "recognition": 8, "image": 1} == slots(settings)


def test_options_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    """Each of the three alone, and together."""
    file = write(tmp_path, 'port = 1\nhost = "file"\nspeech_slots = 2\n')
    settings = config.load(
        {"TENUTO_PORT": "3", "TENUTO_HOST": "variable"}, file=file, options={"port": 4, "host": None}
    )

    assert (4, "variable", 2) == (settings.port, settings.host, slots(settings)["speech"])


def test_the_file_can_be_named_by_a_variable(tmp_path: Path) -> None:
    """The option wins over the variable."""
    named = write(tmp_path, "port = 1\n")
    other = tmp_path / "other.toml"
    other.write_text("port = 2\n")

    assert 1 == config.load({"TENUTO_CONFIG": str(named)}).port
    assert 2 == config.load({"TENUTO_CONFIG": str(named)}, file=other).port


def test_two_variables_have_names_of_their_own() -> None:
    """TENUTO_DATA is the folder, TENUTO_LOG the level; variables of others are not looked at."""
    settings = config.load({"TENUTO_DATA": "/data", "TENUTO_LOG": "debug", "PORT": "1", "HOME": "/x"})

    assert (Path("/data"), "debug", 8080) == (settings.folder, settings.log_level, settings.port)


def test_every_wrong_setting_is_named_at_once(tmp_path: Path) -> None:
    """Of file, variables and options together; each says what would be right."""
    file = write(
        tmp_path,
        "connections = 0\nnonsense = 1\ndrain_s = true\n"
        '[models."a/b"]\nprice = 0.05\nwarm = "yes"\nmore = 1\n[models."c/d"]\nprice = "2"\nhold = "1"\n',
    )
    found = faults(
        {"TENUTO_PORT": "http", "TENUTO_ENGINES": "imaginary", "TENUTO_SPEACH_SLOTS": "1"},
        file=file,
        database="mysql://x",
        silence_s=3,
        blobs="s3",
    )

    for name in (
        *("connections:", "nonsense:", "drain_s:", 'models."a/b".price:', 'models."a/b".warm:'),
        *('models."a/b".more:', 'models."c/d".hold:', "port:", "engines:", "TENUTO_SPEACH_SLOTS:"),
        *("database:", "silence_s:", "blobs:"),
    ):
        assert 1 == sum(name in fault for fault in found), (name, found)
    assert 13 == len(found)


def test_a_name_that_is_almost_right_is_suggested(tmp_path: Path) -> None:
    """In the file, a model's table and the variables; otherwise all names are listed."""
    file = write(tmp_path, 'prcies = "free"\nzzz = 1\n[models."a/b"]\npirce = "1"\n')
    found = faults({"TENUTO_PRCES": "free"}, file=file)

    assert ["did you mean TENUTO_PRICES?", "did you mean price?", "did you mean prices?"] == sorted(
        fault.rpartition("; ")[2] for fault in found if "did you mean" in fault
    )
    assert 1 == sum("there are api_processes, base_path" in fault for fault in found)


def test_a_text_without_quotes_is_explained(tmp_path: Path) -> None:
    """TOML's own message says only where it is."""
    [fault] = faults(file=write(tmp_path, "prices = free\n"))

    assert fault.endswith("; texts are written in quotes")


def test_models_that_were_added_are_tables(tmp_path: Path) -> None:
    """A malformed file of an added model is a fault like any other."""
    (tmp_path / "models").mkdir()
    for name, text in (("a", "models = 1"), ("b", '[models]\n"b/c" = 1')):
        (tmp_path / "models" / f"{name}.toml").write_text(text)

    named = [fault.partition(": ")[2] for fault in faults(folder=tmp_path)]

    assert 'models: write one table per model, [models."NAME"]' == named[0]
    assert ["is not a table"] == named[1:]


@pytest.mark.parametrize("text", ["port = ", "[models", "port = 1\nport = 2", "\x00"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    """With the reason; a missing one too."""
    file = write(tmp_path, text)

    assert [str(file)] == [fault.split(": ")[0] for fault in faults(file=file)]
    assert 1 == len(faults({"TENUTO_CONFIG": str(tmp_path / "missing.toml")}))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('folder = ""', "folder"),
        ("port = 8080.5", "port"),
        ("port = 65536", "port"),
        ("speech_slots = 0", "speech_slots"),
        ("heartbeat_s = nan", "heartbeat_s"),
        ("drain_s = [1]", "drain_s"),
        ('database = "tenuto.db"', "database"),
        ('log_level = "DEBUG"', "log_level"),
        ("models = 1", "models"),
        ('models."a/b" = 1', 'models."a/b"'),
        # A number without quotes is a float in TOML, and no float touches money.
        ('models."a/b".price = 0.05', 'models."a/b".price'),
        ('models."a/b".price = "1e3"', 'models."a/b".price'),
        ('models."a/b".threads = -1', 'models."a/b".threads'),
        ('models."a/b".threads = true', 'models."a/b".threads'),
        ('models."a/b".unit = "hour"', 'models."a/b".unit'),
        ('models."a/b".enabled = 1', 'models."a/b".enabled'),
        ('models."a/b".host = "thread"', 'models."a/b".host'),
        ('models."a/b".ray_gpus = 1', 'models."a/b".ray_gpus'),
        ('models."a/b" = { host = "ray", ray_cpus = -1 }', 'models."a/b".ray_cpus'),
        ('models."a/b" = { host = "ray", ray_gpus = true }', 'models."a/b".ray_gpus'),
        ('models."a/b" = { host = "ray", ray_wait_s = 0 }', 'models."a/b".ray_wait_s'),
        ('models."a/b" = { host = "ray", ray_address = "ray://head:10001" }', 'models."a/b".ray_address'),
        ('models."a/b" = { host = "ray", composed_of = ["c", "d"] }', 'models."a/b".host'),
        ('models."a/b" = { host = "ray", upstream = "http://c" }', 'models."a/b".host'),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(tmp_path: Path, line: str, named: str) -> None:
    """Never a traceback, never a guess."""
    found = faults(file=write(tmp_path, line + "\n"))

    assert [named] == [fault.split(": ")[0] for fault in found]


def test_a_password_is_not_repeated() -> None:
    """The fault of a database's URL names its scheme, not the rest (P16)."""
    assert "hunter2" not in "".join(faults({"TENUTO_DATABASE": "mysql://user:hunter2@host/name"}))


def test_three_heartbeats_fit_into_the_silence() -> None:
    """Or live workers would be robbed."""
    assert 3.0 == config.load({"TENUTO_HEARTBEAT_S": "1", "TENUTO_SILENCE_S": "3"}).silence_s
    assert ["silence_s"] == [
        fault.split(": ")[0] for fault in faults({"TENUTO_HEARTBEAT_S": "1", "TENUTO_SILENCE_S": "2.9"})
    ]


def test_a_table_for_each_model(tmp_path: Path) -> None:
    """Prices are texts in CNY; what a table does not say is the kind's."""
    file = write(
        tmp_path,
        '[models."a/b"]\nenabled = false\nwarm = true\ninterpreter = "/usr/bin/python3"\nthreads = 4\n'
        '[models."c/d"]\nprice = "0.05"\n'
        '[models."e/f"]\nunit = "audio_minute"\nprice = "0.05"\nhold = "6"\n',
    )
    models = config.load({}, file=file).models

    assert {
        "a/b": ModelSettings(enabled=False, interpreter="/usr/bin/python3", warm=True, threads=4),
        "c/d": ModelSettings(price=OwnPrice(None, 50_000)),
        "e/f": ModelSettings(price=OwnPrice("audio_minute", 50_000, 6_000_000)),
    } == models


@given(
    st.builds(
        Settings,
        folder=st.sampled_from([Path("/a b"), Path("relative"), Path("/声音")]),
        port=st.integers(0, 65535),
        silence_s=st.floats(15, 3600),
        models=st.dictionaries(
            st.text(max_size=5),
            st.builds(
                ModelSettings,
                enabled=st.booleans(),
                interpreter=st.none() | st.just("/usr/bin/python3"),
                price=st.builds(OwnPrice, st.sampled_from(["job", "audio_minute"]), st.integers(0, 2**50)),
                threads=st.integers(0, 8),
                ray=st.none() | st.builds(RaySettings, st.just("head:6379"), st.floats(0, 8)),
            ),
            max_size=3,
        ),
    )
)
def test_a_child_gets_the_same_settings(settings: Settings) -> None:
    """What is written for a child process is read by it unchanged."""
    assert settings == config.undump(config.dump(settings))
