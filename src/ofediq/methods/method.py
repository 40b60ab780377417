"""`Method`: a composition of small pieces. Simulator and federation run the same ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ofediq.errors import InputError, require_choice, require_integer
from ofediq.methods.broadcast import Broadcast, Whole
from ofediq.methods.compress import Compressor, Grid, Identity
from ofediq.methods.local import LocalRule
from ofediq.methods.participation import NormProportional, Participation
from ofediq.methods.server import Descend, ServerRule
from ofediq.methods.steering import Budget

Topology = Literal["federated", "central", "separate"]
"""Who learns: clients with a server; one learner that sees every sample; each client alone."""


@dataclass(frozen=True)
class Method:
    """One way to learn online together.

    At step t each client predicts with the common model, then learns (`local`). When t is a multiple of `period`
    the clients chosen by `participation` compress the sum of their gradients over the window, divided by their
    probability of being chosen, and send it; `server` moves the common model.

    Attributes:
        name: shown in tables and pictures.
        local: how a client's own model moves inside a window.
        participation: who sends.
        compress: what is sent.
        server: how the common model moves.
        period: L, the number of steps in a window.
        topology: federated, or one of two references: central (all samples at one place, learnt one by one)
            and separate (no communication).
        steer: how the server's signal to the clients follows a bit budget; None for methods without one.
        broadcast: what the server sends back; the clients predict and take gradients at what they decode.
    """

    name: str
    local: LocalRule
    participation: Participation
    compress: Compressor
    server: ServerRule
    period: int = 1
    topology: Topology = "federated"
    steer: Budget | None = None
    broadcast: Broadcast = field(default_factory=Whole)

    def __post_init__(self) -> None:
        require_integer("period", self.period, 1)
        require_choice("topology", self.topology, ("federated", "central", "separate"))
        if self.topology != "federated" and not self.broadcast.exact:
            raise InputError(f"`broadcast` must be whole without a server, got topology {self.topology!r}")
        proportional = isinstance(self.participation, NormProportional)
        if proportional != (self.steer is not None):
            raise InputError("`steer` must be given with norm-proportional participation, and only with it")
        if isinstance(self.compress, Grid) and self.steer is None:
            raise InputError(
                "`steer` must be given with the grid compressor, which rounds to the server's signal"
            )

    @property
    def sums_gradients(self) -> bool:
        """Whether the server's sum is the plain sum of all gradients at the common model.

        Then one pass over all clients gives predictions and sum at once, with no gradient per client.
        """
        still = self.period == 1 or not self.local.moves
        return self.participation.everyone and isinstance(self.compress, Identity) and still

    def describe(self) -> dict[str, Any]:
        """What identifies this method in a run's configuration."""
        pieces = {
            "local": self.local,
            "participation": self.participation,
            "compress": self.compress,
            "server": self.server if isinstance(self.server, Descend) else self.server.name,
            "steer": self.steer,
        }
        if not self.broadcast.exact:
            pieces["broadcast"] = self.broadcast
        shown = {key: value if isinstance(value, str) else repr(value) for key, value in pieces.items()}
        return {"name": self.name, "period": self.period, "topology": self.topology, **shown}
