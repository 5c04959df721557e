"""How many cores an engine in a test's own process takes: beside other workers of the test run, one."""

import os

ENGINE_THREADS = 1 if "PYTEST_XDIST_WORKER" in os.environ else 0
"""0: as many as the engine takes by itself. The threads of a model wait for each other by spinning, so two
engines that share two cores take half as much processor time again as with one thread each, and no less time.
"""
