"""The peers of `python -m lab.bench.race`: one small program each, written as its documentation recommends.

They run in the environments of requirements/race*.txt, with this folder as their working directory, and know
nothing of Tenuto. `with_*`: each takes the same job, answers with an id once its queue has it, and shows its
state; a worker runs eight jobs at once. `serving_*`: each answers a request with what its model makes of it.
"""
