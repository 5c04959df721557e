"""Where the pages of each table end: how many rows a page has, and its last key. Keys are text.

A key that has many rows is never cut: its page goes on to its last row.
"""

PAGES: dict[str, str] = {
    "account": """select count(*) as rows, max(id) as last from (
        select id from account where id > :after order by id limit :rows) as page""",
    "api_key": """select count(*) as rows, max(id) as last from (
        select id from api_key where id > :after order by id limit :rows) as page""",
    "entry": """select count(*) as rows, max(id) as last from (
        select id from entry where id > :after order by id limit :rows) as page""",
    "job": """select count(*) as rows, max(id) as last from (
        select id from job where id > :after order by id limit :rows) as page""",
    "event": """select count(*) as rows, max(job_id) as last from (
        select job_id from event where job_id > :after order by job_id limit :rows) as page""",
    "artifact": """select count(*) as rows, max(id) as last from (
        select id from artifact where id > :after order by id limit :rows) as page""",
    "segment": """select count(*) as rows, max(attempt_id) as last from (
        select attempt_id from segment where attempt_id > :after order by attempt_id limit :rows) as page""",
    "part": """select count(*) as rows, max(job_id) as last from (
        select job_id from part where job_id > :after order by job_id limit :rows) as page""",
    "voice": """select count(*) as rows, max(id) as last from (
        select id from voice where id > :after order by id limit :rows) as page""",
    "voice_preference": """select count(*) as rows, max(account_id) as last from (
        select account_id from voice_preference where account_id > :after
        order by account_id limit :rows) as page""",
    "job_recording": """select count(*) as rows, max(job_id) as last from (
        select job_id from job_recording where job_id > :after order by job_id limit :rows) as page""",
    "upload_key": """select count(*) as rows, max(key_id) as last from (
        select key_id from upload_key where key_id > :after order by key_id limit :rows) as page""",
    "blob": """select count(*) as rows, max(id) as last from (
        select id from blob where id > :after order by id limit :rows) as page""",
}
