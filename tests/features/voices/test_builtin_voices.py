"""The voices that ship with the program: their table, their recordings, their ids."""

from tenuto.features.speech.parameters import check, resolved
from tenuto.features.voices.builtin import built_in_voices, voice_id
from tenuto.features.voices.rules import LANGUAGES, check_recording, name_fault
from tenuto.ids import is_id
from tenuto_kokoro.styles import ORIGINAL_VOICES

VOICES = built_in_voices()
ALL_BYTES = 2_100_000


def test_every_recording_is_the_one_of_the_table() -> None:
    """The bytes have the hash that stands there, are what an upload might be, and are few (R161)."""
    contents = [voice.content() for voice in VOICES]

    assert [] == [name_fault("name", voice.name) for voice in VOICES if name_fault("name", voice.name)]
    assert {1} == {check_recording(content).channels for content in contents}
    assert sum(map(len, contents)) < ALL_BYTES


def test_ids_follow_from_number_and_recording() -> None:
    """They sort in the table's order, before all other ids; another recording is another id (R175)."""
    ids = [voice.voice_id for voice in VOICES]

    assert all(is_id(each, "voice") for each in ids)
    assert sorted(set(ids)) == ids
    assert ids[-1] < "voice_01"
    assert "voice_000000000187srbtc0cb65887g" == ids[0]
    assert voice_id(1, "a" * 64) != voice_id(1, "b" * 64) != voice_id(2, "b" * 64)


def test_presets_are_spread_over_languages_and_are_none_of_the_original_voices() -> None:
    """No two voices sound alike, and none like a job that names no voice (R161, R178)."""
    styles = [voice.profile["style"] for voice in VOICES if voice.provenance["synthetic"]]

    assert len(styles) == len(set(styles))
    assert not set(styles) & set(ORIGINAL_VOICES.values())
    assert {"zh", "en", "ja", "es"} == {voice.languages[0] for voice in VOICES if voice.kind == "official"}
    assert all(set(voice.languages) <= set(LANGUAGES) for voice in VOICES)


def test_each_says_whether_it_is_synthetic_or_a_person() -> None:
    """The model, its revision and preset, or the reader and the source; the words and the licence."""
    people = [voice for voice in VOICES if not voice.provenance["synthetic"]]

    assert [("official", "Linda"), ("official", "Edward")] == [(voice.kind, voice.name) for voice in people]
    for voice in VOICES:
        makers = {"reader", "source"} if voice in people else {"model_id", "model_revision", "preset"}
        assert {*makers, "text", "language", "licence", "synthetic"} <= set(voice.provenance)
        assert (voice in people) == (voice.profile == {})


def test_the_defaults_of_the_shared_voice_are_the_contracts() -> None:
    """R94, and parameters that the kind itself would take; no other voice has any (R95)."""
    parameters, faults = check({"text": "x"})
    assert parameters is not None and not faults

    shared = VOICES[0]
    assert {
        "duration_factor": 1.1,
        "interval_silence": 350,
        "max_text_tokens_per_segment": 80,
        "use_random": False,
        "use_emo_text": False,
    } == shared.default_parameters
    assert 1.1 == resolved(parameters, shared.default_parameters)["duration_factor"]
    assert ["shared"] == [voice.kind for voice in VOICES if voice.default_parameters or voice.profile_version]
