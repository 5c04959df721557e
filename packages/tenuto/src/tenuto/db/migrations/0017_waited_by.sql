-- The API process whose client waits for this job since a retry joined it, by a name that lasts as long as the process; null: no
-- retry has. The process that accepted the job then does not cancel it when its own client has gone.
alter table job add column waited_by text;
