"""Models with adapters as the operator's tables name them: what fits, and every line that does not."""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from servers.rig import Rig
from tenuto import config
from tenuto.config import ModelSettings, Settings
from tenuto.config.model_settings import read_models
from tenuto.errors import Fault, OperatorError, SettingsInvalid
from tenuto.features.image import kind as image
from tenuto.features.models.manifest import shipped
from tenuto.features.speech import parameters as speech
from tenuto.host import manifests
from tenuto.host.manifests import ManifestInvalid, of_package
from tenuto.host.registry import CHAT_HONOURED, engines_of, entry_of, missing_weights, of_manifest
from tenuto.kind import upstream_keys
from tenuto.kind.envelope import Envelope
from tenuto.kind.model import models
from tenuto.worker.abilities import abilities_of
from tenuto.worker.engines import spec_of
from tenuto_engine.conformance import subjects

INDEX = """[models."bilibili/IndexTTS-2.5"]
adapter = "indextts-2.5"
interpreter = "/opt/indextts/bin/python"
options = { model_dir = "/srv/indextts", reference = "/srv/voice.wav" }
"""
THERE = """[models."there/voice"]
adapter = "openai-speech"
upstream = "http://127.0.0.1:8000/v1"
"""
DOCUMENT = (Path(__file__).parents[3] / "docs" / "operations" / "engines.md").read_text("utf-8")
DOCUMENTED = (
    *("IndexTTS-2.5", "MOSS-Transcribe-Diarize", "VibeVoice-ASR", "faster-whisper", "Qwen3-ASR"),
    *("Supertonic", "Servers with OpenAI's interfaces", "diffusers"),
)
"""Headings above an operator's tables for our adapters."""
OFFERED = ["e5", "kokoro", "llama", "pictograms", "whisper", "whisper-given-language"]
OWN = """kind = "speech"
model = "a/b"
revision = "1"
summary = "Speaks."
[licence]
name = "MIT"
url = "https://example.com"
"""
ENGINE = '[[engine]]\nname = "other"\n' + OWN.replace("[licence]", "[engine.licence]")
"""An engine that waits for an operator's table."""
KOKORO = '[models."hexgrad/Kokoro-82M"]\nadapter = "kokoro"\n'
REQUIRED = """[options.x]
type = "text"
help = ""
required = true
"""


def settings(text: str) -> Settings:
    """These tables, as a file would bring them."""
    faults: list[Fault] = []
    tables = read_models(tomllib.loads(text)["models"], faults)
    assert [] == faults
    return Settings(folder=Path("x"), engines="fake", models=tables)


def faults(text: str) -> list[str]:
    with pytest.raises(SettingsInvalid) as caught:
        models(settings(text))
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_a_licence_is_accepted_by_its_name_first() -> None:
    """Until then nothing starts; one line names the licence, where it is read, and what to write."""
    [line] = faults(INDEX)
    licence = manifests.adapters()["indextts-2.5"].licence
    accepted = INDEX + f'accept_licence = "{licence.name}"\n'

    assert line.startswith('models."bilibili/IndexTTS-2.5": its licence ')
    assert licence.url.startswith("https://")
    assert licence.url in line
    assert f'accept_licence = "{licence.name}"' in line
    assert licence.name == models(settings(accepted))["bilibili/IndexTTS-2.5"].entry.licence
    assert ["accept_licence"] == [
        line.split(": ")[0].rpartition(".")[2] for line in faults(INDEX + 'accept_licence = "MIT"')
    ]


def test_a_disabled_table_asks_for_nothing() -> None:
    assert "bilibili/IndexTTS-2.5" not in models(settings(INDEX + "enabled = false"))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("options = { vice = 'x' }", "there is no such option"),
        ("options = { timeout_s = true }", "True is not an integer"),
        ("options = { voices = { zh = 3 } }", "is not a table of texts"),
        ("role = 'segment_text'", ".role: 'segment_text' is not one of"),
        ("honoured = ['text', 'emo_vector']", "emo_vector changes nothing here"),
        ("defaults = { width = 512 }", ".defaults: there is no width"),
        ("accept_licence = 'MIT'", ".accept_licence: is 'MIT'"),
    ],
)
def test_what_does_not_fit_the_adapter_is_a_line(more: str, says: str) -> None:
    """Nothing is guessed, nothing silently ignored."""
    [line] = faults(THERE + more)

    assert line.startswith('models."there/voice"')
    assert says in line


def test_all_faults_of_all_tables_are_told_at_once() -> None:
    lines = faults(
        '[models."a/a"]\nadapter = "nope"\n[models."a/b"]\nadapter = "openai-speech"\n'
        '[models."a/c"]\nadapter = "vllm-omni-image"\nupstream = "http://h/v1"\ndefaults = { width = 999 }\n'
        '[models."a/d"]\ncomposed_of = ["fake/word-timestamps", "fake/segment-text"]\n'
        '[models."a/e"]\ncomposed_of = ["a/nothing", "fake/word-timestamps"]\n'
        '[models."fake/image"]\nadapter = "openai-image"\nupstream = "http://h/v1"\n'
        '[models."a/f"]\nprice = "1"\n'
    )
    about = {line.split(":")[0].removeprefix("models.") for line in lines}

    assert {'"fake/image"', "models", '"a/a".adapter', '"a/b".upstream'} <= about
    assert {'"a/c".defaults.width', '"a/d".composed_of', '"a/e".composed_of'} <= about
    assert 7 == len(lines)


def test_an_entry_is_the_manifest_with_the_operators_words() -> None:
    own = settings(
        '[models."there/x"]\nadapter = "vllm-omni-image"\nupstream = "http://h/v1"\nupstream_model = "z"\n'
        'connections = 3\nmetered = true\nhonoured = ["prompt", "width", "height"]\nrevision = "r7"\n'
        'memory_mib = 12\nprice = "0.10"\ndefaults = { width = 512 }\noptions = { timeout_s = 5 }\n'
    )
    again = config.undump(config.dump(own))
    model = models(again)["there/x"]

    assert own == again
    assert (False, 3, "r7", 12, 100_000) == (
        model.rerunnable,
        model.entry.concurrency,
        model.entry.revision,
        model.entry.memory_mib,
        model.price.price_micros,
    )
    assert {
        "width": 512,
        "height": 1024,
        "num_inference_steps": 9,
        "guidance_scale": 0,
    } == model.entry.defaults
    assert {"url": "http://h/v1", "model": "z"} == model.entry.options["upstream"]
    assert (5, True, ["prompt", "width", "height"]) == tuple(
        model.entry.options[name] for name in ("timeout_s", "metered", "honoured")
    )


def test_an_offered_engine_named_as_the_adapter_takes_its_options() -> None:
    """Without a table it has its defaults; the table changes nothing else of what the engine is given."""
    table = KOKORO + "options = { concurrency = 2 }"
    entry = models(settings(table))["hexgrad/Kokoro-82M"].entry
    [none] = faults(KOKORO + "options = { concurrency = 0 }")
    offered = manifests.here().manifests["kokoro"]

    assert ".options.concurrency: 0 is not between 1 and 64" in none
    assert (2, 2, 1) == (
        *(entry.concurrency, entry.options["concurrency"]),
        offered.options["concurrency"].default,
    )
    assert (offered.weights, offered.revision) == (entry.weights, entry.revision)


def test_a_key_that_is_missing_is_told_before_anything_starts(tmp_path: Path) -> None:
    in_variable = settings(THERE + 'upstream_key_variable = "NO_SUCH"')
    in_file = settings(THERE + f'upstream_key_file = "{tmp_path}/none"')

    for own in (in_variable, in_file):
        with pytest.raises(OperatorError, match=r'models."there/voice": '):
            upstream_keys.check(models(own), {})
    upstream_keys.check(models(in_variable), {"NO_SUCH": "sk-x"})
    assert "sk-x" not in config.dump(in_variable)


@pytest.mark.parametrize("heading", DOCUMENTED)
def test_the_examples_of_the_documentation_are_sound(heading: str, tmp_path: Path) -> None:
    section = DOCUMENT.split(f"\n## {heading}\n", 1)[1].split("\n## ")[0]
    [example] = re.findall(r"^```toml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (tmp_path / "tenuto.toml").write_text(example)
    offered = models(config.load({}, file=tmp_path / "tenuto.toml"))

    assert set(tomllib.loads(example)["models"]) <= set(offered)


def test_every_manifest_that_ships_is_whole() -> None:
    known_of = {
        "speech": {field.name for field in speech.FIELDS},
        "image": {field.name for field in image.FIELDS},
        "recognition": {"language", "source_offset_seconds"},
        "chat": set(CHAT_HONOURED),
    }
    for name, manifest in manifests.adapters().items():
        known = known_of[manifest.kind]
        folder = Path(manifest.folder).parent
        module = folder.joinpath(*manifest.engine.partition(":")[0].split("."))
        envelope = Envelope(model=name, parameters={"prompt": "x", **manifest.defaults})

        assert set(manifest.honoured) <= known, name
        assert name != "indextts-2.5" or set(manifest.honoured) == known
        assert module.with_suffix(".py").exists() or (module / "__init__.py").exists(), name
        assert not manifest.licence.needs_acceptance or manifest.licence.url.startswith("https://"), name
        assert manifest.kind != "image" or [] == image.KIND.check(envelope)[1], name
        assert set(manifest.defaults) <= known, name


@pytest.mark.parametrize(("more", "tries"), [("", 2), ("metered = true", 1)])
def test_what_is_charged_for_is_never_heard_twice(more: str, tries: int) -> None:
    """A doubtful part of a server that charges is warned of, not asked for again (P10)."""
    model = models(settings(THERE.replace("openai-speech", "openai-transcription") + more))["there/voice"]

    assert (tries, tries == 2) == (model.entry.tries, model.rerunnable)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('kind = "image"\n' + OWN, "not TOML"),
        (OWN.replace('"speech"', "1"), r"got `int` - at `\$.kind`"),
        (OWN + "[options.threads]\ntype = 'integer'\nhelp = ''", "a name of the service's own"),
        (OWN + "[options.x]\ntype = 'integer'\nhelp = ''\ndefault = 'y'", "default does not fit"),
        (OWN.replace('name = "MIT"', 'name = ""'), r"length >= 1 - at `\$.licence.name`"),
        ("engine = 'a:B'\n" + OWN, "engine is the entry point's to say"),
        ("offered = true\n" + OWN + REQUIRED, "offered is true, but"),
        (OWN.replace("summary", "theme"), "unknown field `theme`"),
        (OWN + "[options.x]\nhelp = ''", "missing required field `type`"),
    ],
)
def test_a_manifest_that_is_wrong_says_where(text: str, says: str) -> None:
    """Those of packages are other people's."""
    engine = '[[engine]]\nname = "own"\n' + re.sub(r"^\[(licence|options)", r"[engine.\1", text, flags=re.M)
    with pytest.raises(ManifestInvalid, match=says):
        of_package("own", engine, engine="own:Own")
    with pytest.raises(ManifestInvalid, match="engine is not module:Class"):
        of_package("other", ENGINE, engine="a b")


def test_an_interpreter_that_does_not_answer_is_told(tmp_path: Path) -> None:
    """One that is not there is another machine's matter; one that fails is a fault of this one."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    [away] = faults('[models."a/b"]\nadapter = "nope"\ninterpreter = "/nowhere/python"')
    [fails] = faults(f'[models."a/b"]\nadapter = "nope"\ninterpreter = "{broken}"')

    assert "there is no nope; there are " in away
    assert f"{broken} cannot be asked for its engines" in fails
    assert manifests.here().manifests.items() >= manifests.installed(sys.executable).items()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[engine]]\nname = ", "is not TOML"),
        ("", 'engine.toml needs one [[engine]] with name = "other"'),
        ('[[engine]]\nname = "other"\nkind = "speech"\noffered = true', "missing required field `model`"),
        (
            ENGINE + '[[composition]]\nmodel = "a/c"\ncomposed_of = ["a/b", "a/d"]',
            "names no two offered models",
        ),
        (None, "needs one [[engine]]"),
        ("# UTF-16".encode("utf-16"), "is not TOML"),
    ],
)
@pytest.mark.usefixtures("nothing_remembered")
def test_a_broken_package_takes_away_its_own_engine_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | bytes | None, says: str
) -> None:
    """It is read, never imported, and the operator is told by `tenuto admin doctor`."""
    install(tmp_path, monkeypatch, text)
    found = manifests.here()
    offered = [name for name, manifest in found.manifests.items() if manifest.offered]
    weights = shipped().weights

    assert OFFERED == offered
    assert [True] == [says in fault for fault in found.faults]
    assert "e5-small-q4" in weights


@pytest.mark.usefixtures("nothing_remembered")
def test_an_installed_engine_brings_its_model_and_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is offered needs no table of the operator's; files of its weights lie beside its manifest."""
    weight = """[[weight]]
name = "tiny"
licence = "MIT"
upstream = "https://example.com"
revision = "1"
file = { size_bytes = 1, sha256 = "%s" }
[[weight.source]]
from = "file"
path = "tiny.bin"
""" % ("0" * 64)
    own = OWN.replace("[licence]", 'offered = true\nweights = ["tiny"]\n[engine.licence]')
    install(tmp_path, monkeypatch, f'[[engine]]\nname = "other"\n{own}\n{weight}')
    entry = of_manifest(manifests.here().manifests["other"])

    assert ("a/b", "other_engine:Other", str(tmp_path / "other_engine"), ("tiny",)) == (
        *(entry.model, entry.engine),
        *(entry.folder, entry.weights),
    )
    assert tmp_path / "other_engine" == shipped().folders["tiny"]


@pytest.mark.usefixtures("nothing_remembered")
def test_an_offered_engine_of_somebody_else_gets_what_an_adapter_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the guide lists and the conformance suite passes; a metered one transcribes nothing twice."""
    own = OWN.replace("speech", "recognition").replace(
        "[licence]",
        'offered = true\nnetwork = true\nmetered = true\nroles = ["segment_text"]\n[engine.licence]',
    )
    install(tmp_path, monkeypatch, f'[[engine]]\nname = "other"\n{own}')
    entry = of_manifest(manifests.here().manifests["other"])
    given = spec_of(entry, Settings(folder=tmp_path)).options
    (subject,) = subjects("other").values()

    assert subject.options == {**given, "threads": subject.options["threads"]}
    assert ("a/b", True, "segment_text") == (given["model"], given["metered"], given["role"])
    assert (1, True, True) == (entry.tries, entry.network, subject.network)


@pytest.mark.parametrize(
    ("table", "network"),
    [
        (KOKORO, False),
        (KOKORO + "network = true\n", True),
        (INDEX + 'accept_licence = "bilibili-indextts-2.5"\n', False),
        (THERE, True),
    ],
)
def test_only_an_engine_that_calls_a_server_has_a_network(table: str, network: bool) -> None:
    """Unless the operator allows it to another one by name."""
    own = settings(table)
    (name,) = own.models

    assert network == spec_of(models(own)[name].entry, own).network


@pytest.mark.usefixtures("nothing_remembered")
def test_an_engine_whose_kind_is_not_installed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest may name any kind; which there are, only the service knows."""
    own = OWN.replace("speech", "dance").replace("[licence]", "[engine.licence]")
    install(tmp_path, monkeypatch, f'[[engine]]\nname = "other"\n{own}')
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    [fault] = faults('[models."a/b"]\nadapter = "other"')

    assert 'models."a/b".adapter: is for dance; the kinds of job are speech, recognition, image' == fault


@pytest.fixture
def nothing_remembered() -> Iterator[None]:
    """Which engines are installed is asked once a process: here, again in this test and after it."""
    for once in (manifests.installed, manifests.here, shipped):
        once.cache_clear()
    yield
    for once in (manifests.installed, manifests.here, shipped):
        once.cache_clear()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, manifest: str | bytes | None) -> None:
    """A package with an engine on the path, as an installer leaves it; importing it fails."""
    package, record = folder / "other_engine", folder / "other_engine-1.dist-info"
    package.mkdir()
    record.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError")
    if manifest is not None:
        content = manifest.encode() if isinstance(manifest, str) else manifest
        (package / "engine.toml").write_bytes(content)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: other-engine\nVersion: 1\n")
    (record / "entry_points.txt").write_text("[tenuto.engines]\nother = other_engine:Other\n")
    monkeypatch.syspath_prepend(folder)


DUAL, SPEECH, IMAGE = "fake/dual-recognition", "fake/speech", "fake/image"


def test_a_composed_model_lacks_what_its_engines_lack(rig: Rig) -> None:
    model = rig.context.models[DUAL]
    context = (entry_of("Systran/faster-whisper-base"), entry_of("openai/whisper-base"))
    real = replace(model.entry, composed_of=context)
    needed = {name for entry in engines_of(real) for name in entry.weights}

    assert needed
    assert sorted(needed) == sorted(missing_weights(real, rig.folder))


def reasons(settings: Settings) -> dict[str, str | None]:
    offered = {name: model for name, model in models(settings).items() if model.interface == "jobs"}
    return {ability.model: ability.reason for ability in abilities_of(settings, offered, list(offered))}


def test_a_worker_says_what_it_can_run_and_why_not(tmp_path: Path) -> None:
    bare = Settings(folder=tmp_path, cache=tmp_path / "empty")
    wrong = Settings(
        folder=tmp_path, engines="fake", models={SPEECH: ModelSettings(interpreter="/no/such/python")}
    )

    assert "tenuto models pull" in str(reasons(bare)["hexgrad/Kokoro-82M"])
    assert "not on this machine: /no/such/python" == reasons(wrong)[SPEECH]
    assert reasons(wrong)[IMAGE] is None
    little = Settings(folder=tmp_path, engine_memory_mib=10)
    assert "engine_memory_mib is 10" in str(reasons(little)["hexgrad/Kokoro-82M"])
