"""Private methods: what a promise asks of a method."""

from __future__ import annotations

from ofediq.methods.composition import Method
from ofediq.methods.server.promised import Promised
from ofediq.theory.privacy import Promise


def least_of(method: Method) -> int:
    """How many messages a sum of `method` must have to be used, if it says so; else 0."""
    rule = method.server.part(Promised)
    return 0 if rule is None else rule.least


def promise_of(method: Method) -> Promise | None:
    """What `method` promises, if anything.

    >>> from ofediq.methods import fedogd
    >>> promise_of(fedogd()) is None
    True
    """
    rule = method.server.part(Promised)
    return None if rule is None else rule.promise


def last_step_of(method: Method) -> int | None:
    """The last step that the promise of `method` accounts for; None for no end."""
    rule = method.server.part(Promised)
    return None if rule is None else rule.horizon
