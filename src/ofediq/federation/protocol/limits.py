"""What a client takes from a server at most, whoever speaks with the server's name."""

from __future__ import annotations

from dataclasses import dataclass

from ofediq.errors import WireError


@dataclass(frozen=True)
class Limits:
    """The client's own limits; what exceeds them is refused with a sentence, and the client waits for better.

    Attributes:
        dim: parameters of a model.
        clients: K.
        period: steps in a window.
        payload: bytes of a message.
        lags: past targets among the features.

    >>> Limits().check("task", dim=2**40)
    Traceback (most recent call last):
    ofediq.errors.WireError: task: dim of 1,099,511,627,776 is more than this client's limit of 67,108,864
    """

    dim: int = 2**26
    clients: int = 10**7
    period: int = 10**6
    payload: int = 2**29
    lags: int = 10**4

    def check(self, kind: str, **values: int) -> None:
        """Raise `WireError` if a value is beyond its limit."""
        for name, value in values.items():
            if value > getattr(self, name):
                limit = f"{getattr(self, name):,}"
                raise WireError(f"{kind}: {name} of {value:,} is more than this client's limit of {limit}")
