"""Builds each process from the settings; only the log and S3's signatures read the wall clock elsewhere.

`tenuto serve` starts in serve.py, `tenuto api` in api.py, `tenuto worker` in worker.py and the worker of
`serve` in __main__.py; data_opening.py opens what they and the operator's commands work on. Import the module
that you need: each loads other packages only when it runs, so that a worker never loads HTTP, and a short
command loads neither.
"""
