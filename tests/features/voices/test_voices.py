"""Voices on both databases: whose they are, how they are listed, what a job keeps of one."""

import hashlib
import threading

import pytest

from servers.world import SPEECH, World, request_of
from tenuto.account.caller import Caller
from tenuto.db.database import Transaction
from tenuto.errors import (
    ArtifactUnavailable,
    Erased,
    IdempotencyConflict,
    InvalidRequest,
    NotFound,
    RateLimited,
)
from tenuto.features.decoding.wav import pcm16_wav, read_pcm16_wav
from tenuto.features.voices import builtin
from tenuto.features.voices import operations as voices
from tenuto.features.voices.operations import UploadKey, Voice
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord
from tenuto.file.inputs import check_quota
from tenuto.file.operations import ORPHAN_AGE_MS
from tenuto.job import finish, recover
from tenuto.job.states import Decision
from tenuto.job.submit import prepare

WAV = pcm16_wav(bytes(2 * 8_000), 8_000, 1)


def upload(
    world: World,
    account_id: str | None,
    *,
    name: str = "mine",
    key: UploadKey | None = None,
    kind: str = "own",
) -> str:
    """A voice of a recording that is durable; its id, or that of the upload which was first."""
    blob = world.blob()
    return world.write(
        lambda tx: voices.create(
            tx,
            voice_id=world.ids.new("voice"),
            account_id=account_id,
            kind=kind,
            name=name,
            languages=[],
            wav=read_pcm16_wav(WAV),
            blob=blob,
            key=key,
            now_ms=world.now_ms,
        )
    )


def install(world: World, table: list[builtin.BuiltIn] | None = None) -> list[builtin.BuiltIn]:
    """The built-in voices, as the API installs them when it starts."""
    table = builtin.built_in_voices() if table is None else table
    lacking = world.read(lambda tx: builtin.missing(tx, table))
    recordings = {voice.voice_id: stored(world, voice.content()) for voice in lacking}
    add_built_ins(world, table, recordings)
    return table


def rename(world: World, account_id: str, voice_id: str) -> None:
    world.write(lambda tx: voices.rename(tx, account_id=account_id, voice_id=voice_id, name="x"))


def prefer(world: World, account_id: str, content_account: str, voice_id: str) -> None:
    world.write(
        lambda tx: voices.save_preference(
            tx, account_id=account_id, content_account=content_account, voice_id=voice_id, now_ms=1
        )
    )


def page_of(world: World, account_id: str, after: str | None, limit: int) -> tuple[list[str], str | None]:
    """The ids of a page and its cursor."""
    page, cursor = world.read(
        lambda tx: voices.list_voices(tx, account_id=account_id, after=after, limit=limit)
    )
    return [voice.voice_id for voice in page], cursor


def add_built_ins(world: World, table: list[builtin.BuiltIn], blobs: dict[str, BlobRecord]) -> None:
    world.write(lambda tx: builtin.install(tx, table, blobs, now_ms=world.now_ms))


def stored(world: World, content: bytes) -> BlobRecord:
    return BlobRecord(world.ids.new("blob"), len(content), hashlib.sha256(content).hexdigest(), "0" * 8)


def listed(world: World, account_id: str, after: str | None = None, limit: int = 100) -> list[Voice]:
    return world.read(lambda tx: voices.list_voices(tx, account_id=account_id, after=after, limit=limit))[0]


def blob_of(world: World, account_id: str, voice_id: str) -> str:
    opened = world.read(lambda tx: voices.open_recording(tx, account_id=account_id, voice_id=voice_id))
    return opened.blob.blob_id


def condemned(world: World) -> list[str]:
    """What the sweep takes a day later."""
    world.now_ms += ORPHAN_AGE_MS + 1
    world.write(lambda tx: artifacts.condemn_orphans(tx, now_ms=world.now_ms))
    return world.read(artifacts.condemned)


def speak(world: World, caller: Caller, key: str = "key", **parameters: str) -> str:
    body = {"model": SPEECH, "parameters": {"text": "x", **parameters}}
    return world.send(request_of(caller, key, body)).job_id


def delete(world: World, account_id: str, voice_id: str) -> None:
    world.write(lambda tx: voices.delete(tx, account_id=account_id, voice_id=voice_id, now_ms=world.now_ms))


def test_built_in_voices_are_installed_once(world: World) -> None:
    """11 official voices, 2 emotion references and the shared one, in the table's order (R161)."""
    table = install(world)
    before = world.everything()
    install(world)

    assert before == world.everything()
    assert [voice.voice_id for voice in table] == [
        v.voice_id for v in listed(world, world.caller().account_id)
    ]
    assert {"official": 11, "emotion": 2, "shared": 1} == {
        kind: sum(voice.kind == kind for voice in table) for kind in ("official", "emotion", "shared")
    }
    assert [] == condemned(world)


def test_two_processes_may_install_at_once(world: World) -> None:
    """Whoever is later adds nothing but bytes that are swept (R175)."""
    table = builtin.built_in_voices()
    first, second = [{v.voice_id: stored(world, v.content()) for v in table} for _ in range(2)]
    for recordings in (first, second):
        add_built_ins(world, table, recordings)

    assert {blob.blob_id for blob in second.values()} == set(condemned(world))


def test_a_voice_that_is_shipped_no_more_can_still_be_used(world: World) -> None:
    """It leaves the list, not its callers; an older release would list it again (R175)."""
    table, caller = install(world), world.caller()
    gone = table[3].voice_id
    install(world, [voice for voice in table if voice.voice_id != gone])

    assert gone not in [voice.voice_id for voice in listed(world, caller.account_id)]
    speak(world, caller, voice_id=gone)
    install(world)
    assert gone in [voice.voice_id for voice in listed(world, caller.account_id)]


@pytest.mark.parametrize("column", ["profile", "default_parameters"])
@pytest.mark.parametrize("damage", ['{"style": ', "[]", '"x"', ""])
def test_a_damaged_voice_is_listed_and_no_job_is_made_of_it(world: World, column: str, damage: str) -> None:
    """What it was to sound like is not guessed: the submission is refused, and others are accepted (R161)."""
    table, caller = install(world), world.caller()
    broken, whole = table[1].voice_id, table[2].voice_id
    world.run(f"update voice set {column} = :damage where id = :id", damage=damage, id=broken)
    before = world.everything()
    with pytest.raises(ArtifactUnavailable):
        speak(world, caller, voice_id=broken)

    assert before == world.everything()
    assert len(table) == len(listed(world, caller.account_id))
    speak(world, caller, voice_id=whole)


def test_own_voices_are_their_accounts_alone(world: World) -> None:
    """For all others the id does not exist, whatever they want with it (R173)."""
    owner, other = world.caller(), world.caller()
    voice_id = upload(world, owner.account_id)
    before = world.everything()

    assert [[voice_id], []] == [[v.voice_id for v in listed(world, who.account_id)] for who in (owner, other)]
    with pytest.raises(NotFound):
        world.read(lambda tx: voices.get(tx, account_id=other.account_id, voice_id=voice_id))
    with pytest.raises(NotFound):
        blob_of(world, other.account_id, voice_id)
    with pytest.raises(NotFound):
        rename(world, other.account_id, voice_id)
    with pytest.raises(NotFound):
        delete(world, other.account_id, voice_id)
    with pytest.raises(InvalidRequest, match="no voice"):
        speak(world, other, voice_id=voice_id)
    with pytest.raises(InvalidRequest, match="no voice"):
        prefer(world, other.account_id, "", voice_id)
    assert before == world.everything()


def test_everybodys_voices_are_not_to_be_changed(world: World) -> None:
    """Neither renamed nor deleted by a caller."""
    voice, caller = install(world)[0], world.caller()
    with pytest.raises(NotFound):
        delete(world, caller.account_id, voice.voice_id)
    with pytest.raises(NotFound):
        rename(world, caller.account_id, voice.voice_id)


def test_pages_hold_every_voice_once(world: World) -> None:
    """Following the cursor gives the whole list in one order, whatever the limit (R158–R160)."""
    caller = world.caller()
    install(world)
    own = [upload(world, caller.account_id) for _ in range(5)]
    upload(world, world.caller().account_id)
    imported = upload(world, None, kind="official")
    expected = [voice.voice_id for voice in listed(world, caller.account_id)]

    assert [*own, imported] == expected[14:]
    for limit in (1, 4, 19, 20, 100):
        found, cursor = page_of(world, caller.account_id, None, limit)
        pages = 1
        while cursor is not None:
            page, cursor = page_of(world, caller.account_id, cursor, limit)
            found += page
            pages += 1
        assert (expected, -(-20 // limit)) == (found, pages)


def test_a_job_keeps_the_voice_that_it_was_bound_to(world: World) -> None:
    """Renamed or deleted, the job's frozen voice stays, and its bytes until the job is final (R100)."""
    caller = world.caller()
    voice_id = upload(world, caller.account_id)
    blob_id = blob_of(world, caller.account_id, voice_id)
    speak(world, caller, voice_id=voice_id, emotion_voice_id=voice_id)
    world.register("worker_1")
    delete(world, caller.account_id, voice_id)
    claim = world.claim("worker_1")
    assert claim is not None

    assert claim.parameters["voice"] == claim.parameters["emotion_voice"]
    assert {
        "voice_id": voice_id,
        "kind": "own",
        "profile": {},
        "profile_version": None,
        "blob_id": blob_id,
    } == claim.parameters["voice"]
    assert [] == condemned(world)
    world.finish(claim.attempt_id)
    assert [blob_id] == condemned(world)
    world.write(lambda tx: artifacts.forget_condemned(tx, [blob_id]))


@pytest.mark.parametrize("end", ["succeeded", "failed", "cancelled", "voided", "withdrawn", "expired"])
def test_the_recording_of_a_deleted_voice_goes_with_its_last_job(world: World, end: str) -> None:
    """Whatever ends it, and at once: it no longer counts towards what its account stores (R100)."""
    caller = world.caller()
    voice_id = upload(world, caller.account_id)
    blob_id = blob_of(world, caller.account_id, voice_id)
    # The second one is the last that needs the recording.
    ended, job_id = (speak(world, caller, key, voice_id=voice_id) for key in ("first", "second"))
    world.cancel(caller.account_id, ended)
    delete(world, caller.account_id, voice_id)
    before = world.read(artifacts.condemned)
    if end == "withdrawn":
        world.cancel(caller.account_id, job_id)
    elif end == "expired":
        world.write(lambda tx: finish.expire(tx, world.ids, job_id=job_id, now_ms=world.now_ms))
    else:
        world.register("worker_1")
        claim = world.claim("worker_1")
        assert claim is not None
        by_worker = {"succeeded": world.finish, "failed": world.fail, "cancelled": world.cancelled}
        if end == "voided":
            world.unknown(claim.attempt_id)
            by = Decision("alice", "ticket 7")
            world.write(
                lambda tx: recover.void(tx, world.ids, job_id, cancel=False, by=by, now_ms=world.now_ms)
            )
        else:
            by_worker[end](claim.attempt_id)

    assert [] == before
    assert [blob_id] == world.read(artifacts.condemned)
    world.write(lambda tx: artifacts.forget_condemned(tx, [blob_id]))


def test_a_voice_stays_while_a_job_is_bound_to_it(world: World) -> None:
    """A delete in the middle of a submission waits for it: no accepted job lacks its recording (R100)."""
    caller = world.caller()
    voice_id = upload(world, caller.account_id)
    blob_id = blob_of(world, caller.account_id, voice_id)
    request = request_of(caller, "key", {"model": SPEECH, "parameters": {"text": "x", "voice_id": voice_id}})
    transaction = prepare(world.submitting, request)
    deleting = threading.Thread(target=delete, args=(world, caller.account_id, voice_id))

    def accept(tx: Transaction) -> bool:
        transaction(tx)
        deleting.start()
        deleting.join(0.2)
        return deleting.is_alive()

    assert world.write(accept)
    deleting.join()
    assert [] == listed(world, caller.account_id)
    assert [] == condemned(world)
    assert blob_id == world.read(lambda tx: artifacts.blob_record(tx, blob_id)).blob_id  # type: ignore[union-attr]


def test_a_deleted_voice_takes_its_preferences_along(world: World) -> None:
    """Nothing refers to it any more; its name is free of meaning (R182)."""
    caller = world.caller()
    voice_id = upload(world, caller.account_id)
    for content_account in ("", "a", "b"):
        prefer(world, caller.account_id, content_account, voice_id)
    delete(world, caller.account_id, voice_id)

    assert ([], None) == world.read(lambda tx: voices.preferences(tx, account_id=caller.account_id))
    with pytest.raises(NotFound):
        delete(world, caller.account_id, voice_id)


def test_an_upload_with_a_key_makes_one_voice(world: World) -> None:
    """Also when two come at once; another body under the key is a conflict; a deleted voice stays gone."""
    caller = world.caller()
    key = UploadKey(caller.key_id, "key", "a" * 64)
    first = upload(world, caller.account_id, key=key)

    assert first == upload(world, caller.account_id, key=key)
    assert 1 == len(listed(world, caller.account_id))
    found = world.read(lambda tx: voices.find_upload(tx, account_id=caller.account_id, key=key))
    assert found is not None and first == found.voice_id
    with pytest.raises(IdempotencyConflict):
        upload(world, caller.account_id, key=UploadKey(caller.key_id, "key", "b" * 64))
    delete(world, caller.account_id, first)
    with pytest.raises(Erased):
        world.read(lambda tx: voices.find_upload(tx, account_id=caller.account_id, key=key))


def test_content_accounts_have_a_limit(world: World) -> None:
    """The list of preferences has a bound; changing one that is there is always possible (R183)."""
    account_id, voice_id = world.caller().account_id, install(world)[0].voice_id

    def fill(tx: Transaction) -> None:
        for number in range(voices.MAX_PREFERENCES):
            voices.save_preference(
                tx, account_id=account_id, content_account=str(number), voice_id=voice_id, now_ms=1
            )

    world.write(fill)
    with pytest.raises(InvalidRequest, match="1000 content accounts"):
        prefer(world, account_id, "", voice_id)
    prefer(world, account_id, "7", voice_id)
    saved, default = world.read(lambda tx: voices.preferences(tx, account_id=account_id))
    assert (1000, None) == (len(saved), default)


def test_own_voices_count_in_what_an_account_stores(world: World) -> None:
    """Beside its inputs, until they are deleted; everybody's voices are nobody's burden."""
    caller = world.caller()
    install(world)
    voice_id = upload(world, caller.account_id)

    def has_room() -> bool:
        size_bytes = world.blob().size_bytes
        try:
            world.read(
                lambda tx: check_quota(
                    tx,
                    caller.account_id,
                    size_bytes=size_bytes,
                    limit_bytes=2 * size_bytes - 1,
                    limit_files=0,
                )
            )
        except RateLimited:
            return False
        return True

    assert not has_room()
    delete(world, caller.account_id, voice_id)
    assert has_room()
