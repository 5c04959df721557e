"""Benchmarks: the running service beside its limits, in one table. `python -m lab.bench` from the checkout.

It starts the service and the databases as the tests do, so it borrows their folder `tests/servers`.
"""

from lab.shared import ROOT as ROOT
