"""Builds each process from the settings; nothing else reads the wall clock.

`tenuto serve` and `tenuto api` are api.py, `tenuto worker` is worker.py, the worker of `serve` is
__main__.py; opening.py opens what they and the operator's commands work on. Import the module that you need:
each loads its own packages only when it runs, so that a worker never loads HTTP, and a short command loads
neither.
"""
