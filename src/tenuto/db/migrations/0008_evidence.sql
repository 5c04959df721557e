-- Where an attempt ran, and when its worker was last heard of: the worker's own row goes after some minutes away.
alter table attempt add column machine text;
alter table attempt add column pid integer;
alter table attempt add column heard_at bigint;

-- Who decided about a job that waited for an operator, and why. Shown to operators, never to callers.
alter table event add column operator text;
alter table event add column note text;
