"""The peers of `python -m bench.race`: one small program each, written as its documentation recommends.

They run in the environment of requirements/race.txt, with this folder as their working directory, and know
nothing of Tenuto. Each takes the same request, `POST /v1/jobs`, answers 202 with an id once its store has the
job, and shows its state on `GET /v1/jobs/{id}`; a worker process runs eight jobs at once.
"""
