"""What the audit must find: for each of its checks, ways to spoil a healthy database, as SQL.

Names in braces are rows of `a_bit_of_everything`. A corruption may show in further checks (`also`), where
records that cannot be told apart from each other disagree.
"""

from dataclasses import dataclass

from tenuto.job.states import EVENTS, QUEUED, may_follow


@dataclass(frozen=True)
class Corruption:
    """Statements that the service never makes, and the checks beside its own that they set off."""

    sql: str
    also: tuple[str, ...] = ()


def spoil(sql: str, *also: str) -> Corruption:
    return Corruption(sql, also)


MONEY = {
    "account_balance": [
        spoil("update account set available_micros = available_micros + 1 where id = '{account}'"),
        spoil("update account set held_micros = held_micros - 1 where id = '{account}'", "account_held"),
        spoil("delete from entry where type = 'credit' and account_id = '{account}'"),
    ],
    "account_overdraft": [
        spoil("update account set available_micros = -1 where id = '{account}'", "account_balance")
    ],
    "account_held": [
        spoil(
            """update account set held_micros = held_micros + 7 where id = '{account}';
               insert into entry select 'entry_x', 'hold', id, null, 0, 7, 0, -7, null, 1, null from account
               where id = '{account}'""",
            "entry_form",
        ),
        spoil("update job set hold_micros = 0 where id = '{running}'", "job_hold"),
    ],
    "entry_sum": [
        spoil("update entry set revenue_micros = 1 where job_id = '{running}'", "entry_form"),
        spoil("update entry set funding_micros = 0 where type = 'credit' and account_id = '{account}'"),
    ],
    "entry_form": [
        spoil(
            """update entry set type = 'adjust' where type = 'credit' and account_id = '{account}'""",
        ),
        spoil(
            """insert into entry
               select 'entry_x', 'void', id, '{open}', 0, 0, 5, -5, null, 1, null from account
               where id = '{account}'""",
            "entry_job",
            "job_resolution",
            "job_settlement",
        ),
    ],
    "entry_job": [
        spoil(
            """insert into entry select 'entry_x', 'hold', id, 'job_0', 0, 0, 0, 0, null, 1, null from account
               where id = '{account}'"""
        )
    ],
    "job_hold": [
        spoil("delete from entry where job_id = '{running}'", "account_balance"),
        spoil("update job set hold_micros = hold_micros + 1 where id = '{running}'", "account_held"),
    ],
    "job_resolution": [
        spoil("delete from entry where job_id = '{succeeded}' and type = 'settle'", "account_balance"),
        spoil("delete from entry where job_id = '{failed}' and type = 'void'", "account_balance"),
        spoil(
            """insert into entry select 'entry_x', 'void', account_id, id, 0, 0, 0, 0, null, 1, null from job
               where id = '{running}'""",
            "job_settlement",
        ),
    ],
    "job_settlement": [
        spoil("update job set charged_micros = charged_micros - 1 where id = '{succeeded}'", "job_charge"),
        spoil(
            "update entry set type = 'void' where job_id = '{succeeded}' and type = 'settle'", "entry_form"
        ),
        spoil("update entry set type = 'settle' where job_id = '{failed}' and type = 'void'"),
        spoil("update job set charged_micros = 0 where id = '{failed}'", "job_charge"),
    ],
    "job_charge": [
        spoil(
            """update job set charged_micros = 49999 where id = '{succeeded}';
               update entry set revenue_micros = 49999, available_micros = 1
               where job_id = '{succeeded}' and type = 'settle';
               update account set available_micros = available_micros + 1
               where id = (select account_id from job where id = '{succeeded}')"""
        ),
        spoil("update job set price_micros = price_micros - 1 where id = '{succeeded}'"),
        spoil("update attempt set duration_ms = duration_ms * 2 where job_id = '{heard}'"),
    ],
    "entry_twice": [
        spoil(
            """drop index entry_one_hold;
               insert into entry select 'entry_x', 'hold', account_id, id, 0, 0, 0, 0, null, 1, null from job
               where id = '{running}'""",
            "job_hold",
        )
    ],
    "entry_call": [
        spoil(
            """insert into entry
               select 'entry_x', 'hold', id, null, 0, 0, 0, 0, null, 1, 'call_0' from account
               where id = '{account}'"""
        )
    ],
    "call_hold": [
        spoil("delete from entry where call_id = '{open_call}'", "account_balance"),
        spoil("update model_call set hold_micros = hold_micros + 1 where id = '{open_call}'", "account_held"),
    ],
    "call_resolution": [
        spoil("delete from entry where call_id = '{settled_call}' and type = 'settle'", "account_balance"),
        spoil("update model_call set state = 'void' where id = '{settled_call}'"),
    ],
    "call_charge": [
        spoil("update model_call set prompt_tokens = prompt_tokens + 1000000 where id = '{settled_call}'"),
        spoil("delete from chat_usage where id = '{settled_call}'"),
    ],
}

LIVES = {
    "job_events": [
        spoil("delete from event where job_id = '{succeeded}' and sequence = 1", "event_order"),
        spoil("delete from event where job_id = '{running}'"),
        spoil("update job set event_sequence = event_sequence + 1 where id = '{failed}'"),
    ],
    "event_order": [
        spoil("update event set type = 'released' where job_id = '{succeeded}' and sequence = 1"),
        spoil("update event set type = 'succeeded' where job_id = '{failed}' and sequence = 1"),
    ],
    "event_subject": [
        spoil("update event set attempt_id = 'attempt_0' where job_id = '{running}' and sequence = 1"),
        spoil("insert into event (job_id, sequence, type, at) values ('job_0', 0, 'queued', 1)"),
    ],
    "job_state": [
        spoil("update event set type = 'cancelled' where job_id = '{failed}' and sequence = 2"),
        spoil("update job set state = 'cancelled' where id = '{failed}'"),
    ],
    "job_times": [
        spoil("update job set finished_at = null where id = '{succeeded}'"),
        spoil("update job set finished_at = 1 where id = '{running}'"),
        spoil("update job set started_at = null where id = '{running}'"),
    ],
    "job_key": [
        spoil(
            """update job set key_id = '{other_key}' where id = '{running}';
               update idempotency set key_id = '{other_key}' where job_id = '{running}'"""
        )
    ],
    "job_attempts": [
        spoil("update job set attempts = attempts + 1 where id = '{failed}'"),
        spoil("update attempt set number = 2 where job_id = '{failed}'"),
        spoil("update job set attempt_id = null where id = '{failed}'"),
    ],
    "attempt_open": [
        spoil("update attempt set state = 'running' where job_id = '{failed}'"),
        spoil("update attempt set state = 'running' where job_id = '{recovering}'"),
    ],
    "job_running": [
        spoil("update attempt set state = 'ended' where job_id = '{running}'", "slot_taken"),
    ],
    "paid_twice": [
        spoil(
            f"""update event set type = '{again}' where job_id = '{{open}}' and type = 'released';
                update attempt set fenced_at = 1 where job_id = '{{open}}'"""
        )
        for again, state in EVENTS.items()
        if state == QUEUED and may_follow("running", again)
    ],
    "job_slot": [
        spoil("update slot set job_id = null, attempt_id = null"),
        spoil("insert into slot select 'speech', 9, job_id, attempt_id from slot where job_id is not null"),
    ],
    "slot_taken": [
        spoil(
            """insert into slot select 'speech', 9, id, attempt_id from job where id = '{failed}'""",
        ),
        spoil("update slot set lane = 'image' where job_id is not null"),
    ],
    "idempotency_job": [
        spoil(
            "insert into idempotency values ('{other_key}', 'x', 'x', '{running}', 1)", "idempotency_twice"
        ),
        spoil("insert into idempotency values ('{other_key}', 'x', 'x', 'job_0', 1)"),
    ],
    "job_idempotency": [spoil("delete from idempotency where job_id = '{running}'")],
    "idempotency_twice": [
        spoil(
            """insert into idempotency select key_id, 'x', 'x', job_id, 1 from idempotency
               where job_id = '{running}'"""
        )
    ],
}

CONTENTS = {
    "job_artifact": [
        spoil("update job set artifact_id = null where id = '{succeeded}'", "artifact_job"),
        spoil("update job set artifact_id = '{artifact}' where id = '{failed}'", "job_result"),
    ],
    "job_result": [
        spoil("update attempt set blob_id = '{segment_blob}' where job_id = '{succeeded}'"),
        spoil("update attempt set blob_id = null where job_id = '{succeeded}'"),
    ],
    "job_input": [
        spoil("update artifact set erased_at = 1, blob_id = null where id = '{input}'"),
        spoil("""update job set input_artifact_ids = '["artifact_0"]' where id = '{open}'"""),
    ],
    "attempt_result": [
        spoil("update blob set condemned_at = {now} where id = '{recorded_blob}'"),
        spoil("delete from blob where id = '{recorded_blob}'"),
    ],
    "artifact_job": [
        spoil(
            """insert into artifact (id, account_id, job_id, media_type, size_bytes, sha256, blob_id,
                                     metadata, created_at, erased_at, name)
               select 'artifact_x', account_id, job_id, media_type, size_bytes, sha256,
                      blob_id, metadata, created_at, erased_at, name from artifact where id = '{artifact}'"""
        ),
        spoil("update artifact set job_id = 'job_0' where id = '{artifact}'", "job_artifact"),
    ],
    "artifact_bytes": [
        spoil("delete from blob where id = '{blob}'"),
        spoil("update blob set condemned_at = {now} where id = '{blob}'"),
        spoil("update blob set size_bytes = 1 where id = '{blob}'"),
        spoil("update blob set sha256 = 'x' where id = '{blob}'"),
        spoil("update artifact set erased_at = 1 where id = '{artifact}'"),
    ],
    "segment_order": [
        spoil("update segment set sequence = 2 where sequence = 1"),
        spoil("delete from segment where sequence = 0"),
    ],
    "segment_limits": [
        spoil(
            """update segment set size_bytes = 16777217 where sequence = 1;
               update blob set size_bytes = 16777217
               where id = (select blob_id from segment where sequence = 1)"""
        )
    ],
    "segment_attempt": [
        spoil("update segment set job_id = '{failed}' where sequence = 1"),
    ],
    "segment_bytes": [
        spoil("delete from blob where id = '{segment_blob}'"),
        spoil("update blob set condemned_at = {now} where id = '{segment_blob}'"),
        spoil("update blob set sha256 = 'x' where id = '{segment_blob}'"),
        spoil("update segment set blob_id = null where sequence = 0"),
    ],
    "part_attempt": [
        spoil("update part set attempt_id = 'attempt_0'"),
        spoil("update part set job_id = '{failed}' where job_id = '{open}'"),
        spoil("update part set end_frame = start_frame"),
    ],
    "live_text_attempt": [
        spoil("update live_text set attempt_id = 'attempt_0'"),
        spoil("update live_text set job_id = '{failed}'"),
        spoil("update live_text set job_id = 'job_0'"),
        spoil(
            """update live_text set job_id = '{failed}',
                      attempt_id = (select id from attempt where job_id = '{failed}');
               update job set erased_at = {now} where id = '{failed}'"""
        ),
    ],
    "live_text_ended": [
        spoil(
            """update live_text set job_id = '{failed}',
                      attempt_id = (select id from attempt where job_id = '{failed}');
               update job set finished_at = {now} - 93600001 where id = '{failed}'"""
        ),
    ],
    "kept_result_attempt": [
        spoil("update kept_result set attempt_id = 'attempt_0'"),
        spoil("update kept_result set job_id = '{failed}'"),
        spoil("update kept_result set job_id = 'job_0'"),
        spoil(
            """update kept_result set job_id = '{failed}',
                      attempt_id = (select id from attempt where job_id = '{failed}')"""
        ),
    ],
    "voice_bytes": [
        spoil("delete from blob where id = '{voice_blob}'"),
        spoil("update blob set condemned_at = {now} where id = '{voice_blob}'"),
    ],
    "voice_account": [
        spoil("update voice set account_id = 'account_0'", "preference_voice"),
        spoil("update voice set kind = 'shared'"),
    ],
    "preference_voice": [
        spoil("update voice_preference set voice_id = 'voice_0'"),
        spoil("update voice_preference set account_id = '{other_account}'"),
    ],
    "recording_bytes": [
        spoil("insert into job_recording values ('{open}', 'blob_0')"),
        spoil("insert into job_recording values ('job_0', '{blob}')"),
    ],
    "upload_record": [
        spoil("update upload_key set record_id = 'artifact_0'"),
        spoil("update upload_key set key_id = 'key_0'"),
        spoil("update upload_key set key_id = '{other_key}'"),
    ],
    "blob_orphan": [
        spoil(
            """insert into blob (id, size_bytes, sha256, block_crcs, created_at)
               values ('blob_x', 1, 'x', 'x', {now} - 93600001)"""
        ),
    ],
    "blob_condemned": [
        spoil(
            """insert into blob (id, size_bytes, sha256, block_crcs, condemned_at, created_at)
               values ('blob_x', 0, '', '', {now} - 93600001, 1)"""
        ),
    ],
}

CORRUPTIONS = {**MONEY, **LIVES, **CONTENTS}
