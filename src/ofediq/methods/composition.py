"""`Method`: a composition of small pieces. Simulator and federation run the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from ofediq.arrays import Array
from ofediq.errors import InputError, require, require_kind
from ofediq.methods.broadcast import Broadcast, Whole
from ofediq.methods.budgets.windows import Growing
from ofediq.methods.client import ClientRule
from ofediq.methods.combine import Combine, Sum
from ofediq.methods.compress import Compressor, Identity
from ofediq.methods.participation import Participation
from ofediq.methods.pieces import describe
from ofediq.methods.server.promised import Promised
from ofediq.methods.server.rule import ServerRule
from ofediq.settings import Ranged

_LONGEST = 2**31 - 1  # steps are counted in 32 bits

_PIECES: dict[str, type[Any]] = {
    "client": ClientRule,
    "participation": Participation,
    "compress": Compressor,
    "server": ServerRule,
    "broadcast": Broadcast,
    "combine": Combine,
}

Topology = Literal["federated", "central", "separate", "samples"]
"""Who learns: clients with a server; one learner that sees every sample; each client alone; a server from samples."""


@dataclass(frozen=True)
class Method(Ranged):
    """One way to learn online together.

    At step t each client predicts, then learns (`client`). When t is a multiple of `period` the clients chosen by
    `participation` compress what they have to say and send it; `combine` makes one vector of it, `server` moves the
    common model, `broadcast` sends it back. `methods.round` is the whole of it.

    Attributes:
        name: shown in tables and pictures.
        client: what a client does and remembers.
        participation: who sends.
        compress: how the update is sent.
        server: how the common model moves, and what goes with a broadcast beside it.
        period: L, the number of steps in a window.
        topology: federated, or one of three references: central (all samples at one place, learnt one by one),
            separate (no communication) and samples (clients send compressed samples, and a server learns).
        broadcast: how the model is sent back; the clients predict and take gradients at what they decode.
        combine: how messages become one vector.
        beside: compressors of what clients send beside the update, by name; the others are sent as they are.
        windows: windows that grow, instead of `period` steps each.
    """

    name: str
    client: ClientRule
    participation: Participation
    compress: Compressor
    server: ServerRule
    period: Annotated[int, Meta(ge=1, le=_LONGEST)] = 1
    topology: Topology = "federated"
    broadcast: Broadcast = field(default_factory=Whole)
    combine: Combine = field(default_factory=Sum)
    beside: tuple[tuple[str, Compressor], ...] = ()
    windows: Growing | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in _PIECES.items():
            require_kind(kind, name, getattr(self, name))
        if self.topology != "federated" and not self.broadcast.exact:
            raise InputError(f"`broadcast` must be whole without a server, got topology {self.topology!r}")
        promised = self.server.part(Promised)
        if promised is not None and promised.promise is not None:
            rule = "must not look at updates in a private method, since who sends tells about them"
            require(self.participation.foreseeable, "participation", rule, self.participation)
            rule = "must be sum in a private method: each message has a part of the noise, and sums have all of it"
            require(self.combine.adds, "combine", rule, self.combine)
        for piece in ("participation", "compress"):
            signal = getattr(getattr(self, piece), "signal", None)
            if signal is not None and signal not in self.server.scalars:
                raise InputError(
                    f"`server` must broadcast {signal!r}, which the method's {piece} follows, "
                    f"got {self.server.name}: wrap it in `steered`"
                )

    def compressor(self, name: str) -> Compressor:
        """What the vector called `name` is sent with."""
        return self.compress if name == "update" else dict(self.beside).get(name, Identity())

    def window(self, step: int) -> int:
        """Steps of the window that begins after `step`."""
        return self.period if self.windows is None else int(self.windows.length(np.int32(step)))

    def window_to(self, end: Array) -> Array:
        """Steps of the window that ends with the step `end`."""
        return self.period if self.windows is None else self.windows.length_to(_array(end))

    def number_to(self, end: Array) -> Array:
        """How many windows there are up to the one that ends with the step `end`."""
        return end // self.period if self.windows is None else self.windows.number_to(_array(end))

    def ends(self, steps: int) -> npt.NDArray[np.int32]:
        """The last steps of all windows within `steps`."""
        if self.windows is not None:
            return self.windows.ends(steps)
        return np.arange(self.period, steps + 1, self.period, dtype=np.int32)

    @property
    def sums_gradients(self) -> bool:
        """Whether the server's sum is the plain sum of all gradients at the common model.

        Then one pass over all clients gives predictions and sum at once, with no gradient per client.
        """
        client = self.client
        plain = client.plain and client.idle
        still = not self.long_windows or not client.moves
        sums = self.combine.adds and isinstance(self.compress, Identity)
        return plain and still and sums and self.participation.everyone

    @property
    def mean_window(self) -> float:
        """Steps of a window on average."""
        if self.windows is None:
            return float(self.period)
        return self.windows.steps / max(1, len(self.windows.ends(self.windows.steps)))

    @property
    def long_windows(self) -> bool:
        """Whether there are windows of more than one step."""
        return self.period > 1 or self.windows is not None

    def describe(self) -> dict[str, Any]:
        """What identifies this method in a run's configuration, JSON-ready."""
        shown: dict[str, Any] = {"name": self.name, "period": self.period, "topology": self.topology}
        for piece in ("client", "participation", "compress", "server", "broadcast", "combine"):
            shown[piece] = describe(getattr(self, piece))
        if self.windows is not None:
            shown["windows"] = describe(self.windows)
        if self.beside:
            shown["beside"] = {name: describe(piece) for name, piece in self.beside}
        return shown


def _array(step: Array) -> Array:
    return np.int32(step) if isinstance(step, int) else step


def pieces_of(method: Method) -> Mapping[str, Any]:
    """The pieces of a method by the name of their place."""
    names = ("client", "participation", "compress", "server", "broadcast", "combine")
    return {name: getattr(method, name) for name in names}
