"""`Client`: one participant with River's vocabulary, for an existing stream loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ofediq.errors import require_kind, require_nonnegative, require_positive
from ofediq.federation.names import require_name
from ofediq.federation.network.broker import Broker, BrokerError
from ofediq.federation.network.outlets import Outlet
from ofediq.federation.network.session import Session
from ofediq.federation.protocol.learner import Learner
from ofediq.federation.protocol.memory import MemoryFile
from ofediq.federation.protocol.messages import Publish
from ofediq.federation.protocol.predictions import REMEMBERED, Prediction
from ofediq.models import Model


class Client:
    """A member of a live federation.

        with Client(Broker("mqtts://broker.example", ca="ca.pem", ...), "greenhouse", "pi-03") as client:
            for x, y in stream:
                guess = client.predict_one(x)
                client.learn_one(x, y)

    The connection lives in a thread of its own: `predict_one` never waits for it, and a broker that is away for an
    hour is no error. Labels may come late, samples may come at any time or not at all.

    Args:
        broker: where to connect, and how.
        federation: its name.
        name: this client's, unique in the federation; with certificates it is the common name.
        model: for models that are not built in.
        wait: seconds that `learn_one` waits for a round that still has room for the sample. 0 suits sensors, whose
            samples come when they come; a replay that must not skip a round gives more.
        timeout: seconds to wait for the federation's first model.
        memory: file in which what the client remembers outlives its process: what features need, and the method's
            memory.
        memory_every: write it at the end of every so many rounds.
        remember: predictions that wait for their label, at most; of more the oldest are forgotten.
        predictions: file that a JSON line is added to for each prediction.
        publish: whether each is published to `<federation>/p/<client>`.
        discovery: Home Assistant's prefix, usually "homeassistant": makes a sensor of that topic.
    """

    def __init__(
        self,
        broker: Broker,
        federation: str,
        name: str,
        model: Model | None = None,
        wait: float = 0.0,
        timeout: float = 30.0,
        memory: str | Path | None = None,
        memory_every: int = 1,
        remember: int = REMEMBERED,
        predictions: str | Path | None = None,
        publish: bool = False,
        discovery: str | None = None,
    ) -> None:
        require_kind(Broker, "broker", broker)
        require_name("federation", federation)
        require_name("name", name)
        file = None if memory is None else MemoryFile(Path(memory), every=memory_every)
        self.learner = Learner(federation, name, model, file, remember)
        self.outlet = Outlet(federation, name, path=predictions, publish=publish, discovery=discovery)
        self.wait = require_nonnegative("wait", wait)
        self.timeout = require_positive("timeout", timeout)
        self._broker = broker
        self._news = threading.Condition()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: Session | None = None
        self._thread = threading.Thread(target=self._live, name=f"ofediq-{name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        with self._news:
            self._news.wait_for(lambda: self.learner.ready or self._failure is not None, self.timeout)
            failure, ready = self._failure, self.learner.ready
        if failure is not None or not ready:
            self._end()
            if failure is not None:
                raise failure
            raise BrokerError(
                f"no model of federation {self.learner.federation!r} came within {self.timeout:g} seconds: "
                "is its server running, and may this client take part?"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def predict_one(self, x: Any, *, sample: Any = None, time: float | None = None) -> Any:
        """The prediction for one sample: a label or a number.

        Arguments:
            x: an array, a list, or a dict by the names in the task.
            sample: what you call it, if its label comes late: `learn_one(None, y, sample=...)` finds it again.
            time: of the sample, in seconds since 1970; now if left out.
        """
        return self.forecast_one(x, sample=sample, time=time).value

    def predict_proba_one(self, x: Any, *, sample: Any = None, time: float | None = None) -> dict[Any, float]:
        """The probability of each label; empty for a regression."""
        return self.forecast_one(x, sample=sample, time=time).probabilities or {}

    def forecast_one(self, x: Any, *, sample: Any = None, time: float | None = None) -> Prediction:
        """The prediction with the labels' probabilities, or with an interval for a number."""
        with self._news:
            found = self.learner.forecast(x, sample=sample, time=time)
            if self.outlet.wanted:
                self._send(self.outlet(found, sample))
            return found

    def learn_one(self, x: Any, y: Any, *, sample: Any = None, time: float | None = None) -> bool:
        """Learn from one labelled sample; returns whether the open round had room for it."""
        with self._news:
            self._news.wait_for(lambda: self.learner.hungry or self.learner.finished, self.wait)
            used, said = self.learner.learn(x, y, sample=sample, time=time)
            self._send(said)
            return used

    @property
    def step(self) -> int:
        """The time step of the open round."""
        return self.learner.step

    @property
    def finished(self) -> bool:
        """Whether learning is over; predictions go on."""
        return self.learner.finished

    def traffic(self) -> tuple[int, int]:
        """Bytes received and sent on the socket so far."""
        return (0, 0) if self._session is None else self._session.traffic()

    def _send(self, said: list[Publish]) -> None:
        if said and self._loop is not None and self._session is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._session.send, said)

    def _live(self) -> None:
        """The network's thread."""
        try:
            asyncio.run(self._connect())
        except Exception as error:
            with self._news:
                self._failure = error
                self._news.notify_all()

    async def _connect(self) -> None:
        session = Session(self.learner, self._broker, self._tell, self.timeout, lock=self._news)
        self._loop, self._session = asyncio.get_running_loop(), session
        await session.run()

    def _tell(self) -> list[Publish]:
        """Something arrived: wake whoever waits for it. Called with the lock held."""
        self._news.notify_all()
        return []

    def _end(self) -> None:
        loop, session = self._loop, self._session
        if loop is not None and session is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop may have ended just now
                loop.call_soon_threadsafe(session.stop)
        self._thread.join(timeout=15)
