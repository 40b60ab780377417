"""What a check found: one finding for each contract, and all of them as a page for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ofediq.errors import ContractError

Verdict = Literal["kept", "broken", "skipped"]


@dataclass(frozen=True)
class Finding:
    """One contract and how a method stands to it.

    Attributes:
        contract: its name, such as "compress: unbiased".
        verdict: `kept`, `broken`, or `skipped` where it does not apply.
        sentence: how it was checked, what is wrong, or why it does not apply.
    """

    contract: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True)
class Findings:
    """All findings about one method.

    >>> report = Findings("mine", (Finding("compress: unbiased", "broken", "the mean is off."),))
    >>> print(report)
    mine: 0 contracts kept, 1 broken, 0 skipped
      broken   compress: unbiased  the mean is off.
    >>> report.ok
    False
    """

    method: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no contract is broken."""
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The broken contracts."""
        return self._with("broken")

    def raise_if_broken(self) -> None:
        """Raise `ContractError` with one sentence for each broken contract."""
        if not self.ok:
            lines = [f"{one.contract}: {one.sentence}" for one in self.broken]
            raise ContractError(f"{self.method} breaks {_count(lines)}\n  " + "\n  ".join(lines))

    def __str__(self) -> str:
        counts = [len(self._with(verdict)) for verdict in ("kept", "broken", "skipped")]
        head = "{}: {} contracts kept, {} broken, {} skipped".format(self.method, *counts)
        width = max((len(one.contract) for one in self.findings), default=0)
        rows = [f"  {one.verdict:<7}  {one.contract:<{width}}  {one.sentence}" for one in self.findings]
        return "\n".join([head, *rows])

    def _with(self, verdict: str) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.verdict == verdict)


def _count(lines: list[str]) -> str:
    return "a contract:" if len(lines) == 1 else f"{len(lines)} contracts:"
