-- The line is found by an index of its own, whatever is known of the queue: PostgreSQL counts states when it analyzes
-- a table, and of a queue that came since it believed that it was empty; then any index of what is queued would do.
-- Of `state || ''` it knows nothing, and no other index holds just these rows. `job_of_model` is for older processes.
create index job_in_line on job (lane, model, account_id, id) where state || '' = 'queued';
