"""The checks of contents: artifacts, segments, parts, live text, voices; whatever is referred to exists.

They prove P5, P7 and P11.

Rows only: `deep` checks whether the bytes are what the rows say.
"""

from tenuto.features.audit.check import Check

_DEEP = "`tenuto admin audit --deep` reports whether the bytes are there; restore them from a backup"
_REPORT = "report it; `tenuto admin evidence` has the job's story"
_UPKEEP = "`tenuto serve` removes it; if it stays, look for `upkeep.failed` in the log"
_SWEEP = "`tenuto serve` removes it; if it stays, look for `blob.not_removed` in the log"

CHECKS: tuple[Check, ...] = (
    Check(
        "job_artifact",
        "job",
        "the job succeeded without an artifact of its own, or has one without success",
        _REPORT,
        """select j.id as subject, j.state, j.artifact_id
           from job j left join artifact a on a.id = j.artifact_id
           where j.id > :after and j.id <= :last
             and ((j.state = 'succeeded') <> (a.id is not null)
                  or (a.id is not null
                      and (coalesce(a.job_id, '') <> j.id or a.account_id <> j.account_id)))""",
    ),
    Check(
        "job_result",
        "job",
        "the artifact is not the result that the attempt recorded",
        _REPORT,
        """select j.id as subject, t.blob_id as recorded, a.blob_id as artifact
           from job j join artifact a on a.id = j.artifact_id join attempt t on t.id = j.attempt_id
           where j.id > :after and j.id <= :last and a.erased_at is null
             and coalesce(t.blob_id, '') <> coalesce(a.blob_id, '')""",
    ),
    Check(
        "job_input",
        "job",
        "the job waits for an input that does not exist",
        "the job will fail; its caller has to upload the input and submit again",
        """select j.id as subject, j.state, j.input_artifact_ids from job j
           left join artifact a on a.id = substr(j.input_artifact_ids, 3, 35) and a.account_id = j.account_id
             and a.job_id is null and a.erased_at is null
           where j.id > :after and j.id <= :last and j.input_artifact_ids <> '[]' and a.id is null
             and j.state not in ('succeeded', 'failed', 'cancelled')""",
    ),
    Check(
        "attempt_result",
        "job",
        "the attempt has recorded a result whose bytes have no row, or are condemned",
        _REPORT,
        """select t.id as subject, j.id as job, t.blob_id, b.condemned_at
           from job j join attempt t on t.job_id = j.id left join blob b on b.id = t.blob_id
           where j.id > :after and j.id <= :last and t.state = 'recorded'
             and (b.id is null or b.condemned_at is not null)""",
    ),
    Check(
        "artifact_job",
        "artifact",
        "the artifact is not the one result of a job that succeeded",
        _REPORT,
        """select a.id as subject, a.job_id, j.state, j.artifact_id
           from artifact a left join job j on j.id = a.job_id
           where a.id > :after and a.id <= :last and a.job_id is not null
             and (j.id is null or j.state <> 'succeeded' or coalesce(j.artifact_id, '') <> a.id)""",
    ),
    Check(
        "artifact_bytes",
        "artifact",
        "the artifact's bytes are missing, condemned, or not those of its row",
        _DEEP,
        """select a.id as subject, a.job_id, a.blob_id, b.condemned_at, b.size_bytes as blob_bytes
           from artifact a left join blob b on b.id = a.blob_id
           where a.id > :after and a.id <= :last
             and ((a.erased_at is null
                   and (b.id is null or b.condemned_at is not null or b.size_bytes <> a.size_bytes
                        or b.sha256 <> a.sha256))
                  or (a.erased_at is not null and a.blob_id is not null))""",
    ),
    Check(
        "segment_order",
        "segment",
        "the attempt's segments are not numbered from 0 without a gap",
        _REPORT,
        """select attempt_id as subject, count(*) as segments, min(sequence) as first, max(sequence) as newest
           from segment where attempt_id > :after and attempt_id <= :last
           group by attempt_id having min(sequence) <> 0 or max(sequence) <> count(*) - 1""",
    ),
    Check(
        "segment_limits",
        "segment",
        "the attempt has more segments, or larger ones, than the limits allow",
        _REPORT,
        """select attempt_id as subject, count(*) as segments, max(size_bytes) as largest,
                  cast(sum(size_bytes) as bigint) as size_bytes
           from segment where attempt_id > :after and attempt_id <= :last
           group by attempt_id having count(*) > 1024 or max(size_bytes) > 16777216
             or sum(size_bytes) > 335544320""",
    ),
    Check(
        "segment_attempt",
        "segment",
        "the segment belongs to no attempt of its job",
        _REPORT,
        """select s.id as subject, s.job_id, s.attempt_id
           from segment s left join attempt t on t.id = s.attempt_id left join job j on j.id = s.job_id
           where s.attempt_id > :after and s.attempt_id <= :last
             and (j.id is null or t.id is null or t.job_id <> s.job_id)""",
    ),
    Check(
        "segment_bytes",
        "segment",
        "the segment's bytes are missing, condemned, or not those of its row",
        _DEEP,
        """select s.id as subject, s.job_id, s.blob_id, b.condemned_at, b.size_bytes as blob_bytes
           from segment s left join blob b on b.id = s.blob_id left join job j on j.id = s.job_id
           where s.attempt_id > :after and s.attempt_id <= :last
             and ((s.blob_id is null and j.erased_at is null)
                  or (s.blob_id is not null
                      and (b.id is null or b.condemned_at is not null or b.size_bytes <> s.size_bytes
                           or b.sha256 <> s.sha256)))""",
    ),
    Check(
        "part_attempt",
        "part",
        "the part does not come from an attempt of its job, or ends before it begins",
        "the job makes it again when its parts are removed; report it",
        """select p.job_id as subject, p.role, p.number, p.attempt_id, p.start_frame, p.end_frame
           from part p left join job j on j.id = p.job_id left join attempt t on t.id = p.attempt_id
           where p.job_id > :after and p.job_id <= :last
             and (j.id is null or t.id is null or t.job_id <> p.job_id
                  or p.end_frame <= p.start_frame or p.start_frame < 0)""",
    ),
    Check(
        "live_text_attempt",
        "live_text",
        "the live text belongs to no attempt of its job, or its job was erased",
        _REPORT,
        """select l.attempt_id as subject, l.job_id, t.job_id as attempt_job, j.erased_at, count(*) as pieces
           from live_text l left join attempt t on t.id = l.attempt_id left join job j on j.id = l.job_id
           where l.attempt_id > :after and l.attempt_id <= :last
             and (j.id is null or t.id is null or t.job_id <> l.job_id or j.erased_at is not null)
           group by l.attempt_id, l.job_id, t.job_id, j.erased_at""",
    ),
    Check(
        "live_text_ended",
        "live_text",
        "the job ended more than a day ago, and its live text is still there",
        _UPKEEP,
        """select l.attempt_id as subject, l.job_id, j.state, j.finished_at, count(*) as pieces
           from live_text l join job j on j.id = l.job_id
           where l.attempt_id > :after and l.attempt_id <= :last
             and j.state in ('succeeded', 'failed', 'cancelled') and j.finished_at < :before
           group by l.attempt_id, l.job_id, j.state, j.finished_at""",
    ),
    Check(
        "kept_result_attempt",
        "kept_result",
        "the kept result belongs to no attempt of its job, or is stored, or its job has ended",
        _REPORT,
        """select k.attempt_id as subject, k.job_id, t.job_id as attempt_job, t.state as attempt, j.state
           from kept_result k left join attempt t on t.id = k.attempt_id left join job j on j.id = k.job_id
           where k.attempt_id > :after and k.attempt_id <= :last
             and (j.id is null or t.id is null or t.job_id <> k.job_id or t.state = 'recorded'
                  or j.state not in ('running', 'recovery_required'))
           group by k.attempt_id, k.job_id, t.job_id, t.state, j.state""",
    ),
    Check(
        "voice_bytes",
        "voice",
        "the voice has no recording, or it is condemned",
        _DEEP,
        """select v.id as subject, v.kind, v.blob_id, b.condemned_at
           from voice v left join blob b on b.id = v.blob_id
           where v.id > :after and v.id <= :last and (b.id is null or b.condemned_at is not null)""",
    ),
    Check(
        "voice_account",
        "voice",
        "an own voice has no account, or a shared voice has one",
        _REPORT,
        """select v.id as subject, v.kind, v.account_id
           from voice v left join account a on a.id = v.account_id
           where v.id > :after and v.id <= :last and (v.kind = 'own') <> (a.id is not null)""",
    ),
    Check(
        "preference_voice",
        "voice_preference",
        "the account prefers a voice that it cannot use",
        "its next PUT of a voice preference corrects it; report it",
        """select p.account_id as subject, p.content_account, p.voice_id, v.kind
           from voice_preference p left join voice v on v.id = p.voice_id
           where p.account_id > :after and p.account_id <= :last
             and (v.id is null or v.kind = 'emotion'
                  or (v.account_id is not null and v.account_id <> p.account_id))""",
    ),
    Check(
        "recording_bytes",
        "job_recording",
        "the open job is bound to a recording that does not exist",
        _DEEP,
        """select r.job_id as subject, r.blob_id, b.condemned_at, j.state
           from job_recording r left join job j on j.id = r.job_id left join blob b on b.id = r.blob_id
           where r.job_id > :after and r.job_id <= :last
             and (j.id is null or (j.state not in ('succeeded', 'failed', 'cancelled')
                                   and (b.id is null or b.condemned_at is not null)))""",
    ),
    Check(
        "upload_record",
        "upload_key",
        "an upload's key names an input or an API key that does not exist",
        _REPORT,
        """select u.record_id as subject, u.key_id
           from upload_key u left join api_key k on k.id = u.key_id left join artifact a on a.id = u.record_id
           where u.key_id > :after and u.key_id <= :last
             and (k.id is null
                  or (u.record_id like 'artifact%' and (a.id is null or a.account_id <> k.account_id)))""",
    ),
    Check(
        "blob_orphan",
        "blob",
        "nothing refers to the blob, and it is older than a day",
        _SWEEP,
        """select b.id as subject, b.size_bytes, b.created_at from blob b
           where b.id > :after and b.id <= :last and b.condemned_at is null and b.created_at < :before
             and not exists (select 1 from artifact a where a.blob_id = b.id)
             and not exists (select 1 from attempt t where t.blob_id = b.id)
             and not exists (select 1 from voice v where v.blob_id = b.id)
             and not exists (select 1 from job_recording r join job j on j.id = r.job_id
                             where r.blob_id = b.id
                               and j.state not in ('succeeded', 'failed', 'cancelled'))
             and not exists (select 1 from segment s where s.blob_id = b.id)""",
    ),
    Check(
        "blob_condemned",
        "blob",
        "the blob was condemned more than a day ago and is still there",
        _SWEEP,
        """select id as subject, size_bytes, condemned_at from blob
           where id > :after and id <= :last and condemned_at < :before and is_removed = 0""",
    ),
)
