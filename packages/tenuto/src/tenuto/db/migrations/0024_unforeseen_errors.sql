-- How many of the job's attempts met an error that the worker does not know. Until now they were counted with the lost hosts
-- and told as `released`: what open jobs have counted so is moved here.

alter table job add column unforeseen_errors integer not null default 0;
update job set
    unforeseen_errors = (select count(*) from event e where e.job_id = job.id and e.type = 'released'
        and e.detail = 'The worker could not carry out the job because of an unforeseen error.'),
    hosts_lost = hosts_lost - (select count(*) from event e where e.job_id = job.id and e.type = 'released'
        and e.detail = 'The worker could not carry out the job because of an unforeseen error.')
where state in ('queued', 'running', 'recovery_required') and hosts_lost > 0;
