-- The API process that a declared retry of the job's request came to last, by a name that it has until it ends; null: none did.
-- The one that accepted the job leaves it alone then, although its own client has gone.
alter table job add column waited_by text;
