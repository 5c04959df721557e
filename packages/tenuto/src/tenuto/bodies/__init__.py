"""Request bodies: fields and their rules, the top level of a job, a chat."""
