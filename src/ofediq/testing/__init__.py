"""Contract tests for methods: your own method gets the same scrutiny as ours.

>>> from ofediq import methods, testing
>>> report = testing.check_method(methods.fedogd())
>>> report.ok, len(report.findings) == len(testing.CONTRACTS)
(True, True)
"""

from ofediq.errors import ContractError
from ofediq.testing.check import CONTRACTS, check_method
from ofediq.testing.findings import Finding, Findings

__all__ = ["CONTRACTS", "ContractError", "Finding", "Findings", "check_method"]
