"""Networks that are no stack of layers beside a plain PyTorch loop over the clients: CPU time of one thread.

Residual, dense (every layer sees all before it) and depthwise blocks on images of 3 x 32 x 32, written once in torch:
ofediq translates them, the loop runs them as they are. The loop predicts for everyone and goes back for those who
send; it quantises nothing, which flatters it. Both take turns; the fastest of each counts.

    OFEDIQ_THREADS=1 taskset -c 0 python -m benchmarks.branches [names]
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks import table
from ofediq import methods, models, streams
from ofediq.errors import extra
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.simulation import simulate
from ofediq.streams import Stream

CLIENTS, STEPS, SHAPE, CLASSES, ROUNDS = 100, 4, (3, 32, 32), 10, 3
RATES = (("FedOGD", 1.0), ("OFedIQ, one in ten", 0.1))


def main() -> None:
    """Print a row for each network and method."""
    torch = extra("torch", "torch")
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, *SHAPE)).astype(np.float32)
    data = streams.Dataset(
        "images", x, rng.integers(0, CLASSES, 500).astype(np.int32), "classification", CLASSES
    )
    stream = Stream(data, rng.integers(0, 500, (STEPS, CLIENTS)).astype(np.int32))
    rows: list[list[object]] = [
        ["CPU ms per client", "D", "method", "ofediq", "loop", "ofediq / loop", "engine"]
    ]
    for name, make in networks().items():
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        model = models.from_torch(make, "classification", threads=1)
        torch.manual_seed(0)
        loop = Loop(make(0), x, data.y)
        for method, rate in RATES:
            chosen = methods.fedogd() if rate == 1 else methods.ofediq(rate, 3, model.dim // 45)
            times: list[tuple[float, float]] = []
            for _ in range(ROUNDS):
                ours = seconds(chosen, stream, model) / CLIENTS / STEPS
                times.append((1e3 * ours, 1e3 * loop.seconds(stream.order[0], rate)))
            own, theirs = (min(one) for one in zip(*times, strict=True))
            engine = simulate(chosen, stream.head(1), model).engine
            rows.append(
                [name, model.dim, method, f"{own:.2f}", f"{theirs:.2f}", f"{own / theirs:.2f}", engine]
            )
            print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print(table(rows))


def seconds(method: Method, stream: Stream, model: Model) -> float:
    """CPU time of a run; the first one also compiles."""
    started = time.process_time()
    simulate(method, stream, model)
    return time.process_time() - started


class Loop:
    """A step of all clients, one after another."""

    def __init__(self, module: Any, x: Any, y: Any) -> None:
        self.torch = extra("torch", "torch")
        self.module = module.eval()
        self.x, self.y = self.torch.as_tensor(x), self.torch.as_tensor(y).long()

    def seconds(self, rows: Any, rate: float) -> float:
        """CPU time for each client."""
        torch, started = self.torch, time.process_time()
        parameters = list(self.module.parameters())
        total = torch.zeros(sum(one.numel() for one in parameters))
        for client, row in enumerate(rows):
            x, y = self.x[row : row + 1], self.y[row : row + 1]
            sends = client * rate % 1 < rate
            with torch.set_grad_enabled(sends):
                loss = torch.nn.functional.cross_entropy(self.module(x), y)
            if sends:
                self.module.zero_grad()
                loss.backward()
                total += torch.cat([one.grad.reshape(-1) for one in parameters])
        return (time.process_time() - started) / len(rows)


def networks() -> dict[str, Any]:
    """By name, from a seed to a module."""
    nn, torch = extra("torch.nn", "torch"), extra("torch", "torch")

    def convolution(given: int, filters: int, stride: int = 1, size: int = 3, groups: int = 1) -> Any:
        filter_ = nn.Conv2d(given, filters, size, stride, size // 2, bias=False, groups=groups)
        return nn.Sequential(filter_, nn.GroupNorm(4, filters))

    class Residual(nn.Module):  # type: ignore[name-defined, misc]  # a module that is imported by name
        """Two convolutions beside a way around them."""

        def __init__(self, given: int, filters: int, stride: int) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                convolution(given, filters, stride), nn.ReLU(), convolution(filters, filters)
            )
            self.around = nn.Identity() if stride == 1 else convolution(given, filters, stride, 1)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.inner(x) + self.around(x))

    class Dense(nn.Module):  # type: ignore[name-defined, misc]  # likewise
        """Channels beside those that they were made of."""

        def __init__(self, given: int, more: int) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.GroupNorm(4, given), nn.ReLU(), nn.Conv2d(given, more, 3, 1, 1))

        def forward(self, x: Any) -> Any:
            return torch.cat([x, self.inner(x)], 1)

    class Depthwise(nn.Module):  # type: ignore[name-defined, misc]  # likewise
        """Wide, each channel by itself, narrow; beside a way around."""

        def __init__(self, given: int, filters: int, stride: int) -> None:
            super().__init__()
            wide = 4 * given
            parts = (
                convolution(given, wide, 1, 1),
                nn.ReLU6(),
                convolution(wide, wide, stride, 3, wide),
                nn.ReLU6(),
            )
            self.inner = nn.Sequential(*parts, convolution(wide, filters, 1, 1))
            self.straight = stride == 1 and given == filters

        def forward(self, x: Any) -> Any:
            return x + self.inner(x) if self.straight else self.inner(x)

    def ended(channels: int, *layers: Any) -> Any:
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES))

    def residual(seed: int) -> Any:
        blocks = (Residual(16, 16, 1), Residual(16, 32, 2))
        return ended(32, convolution(3, 16), nn.ReLU(), *blocks)

    def wide_residual(seed: int) -> Any:
        blocks = (Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2))
        return ended(128, convolution(3, 32), nn.ReLU(), *blocks)

    def dense(seed: int) -> Any:
        first = (convolution(3, 16, 2), Dense(16, 12), Dense(28, 12), Dense(40, 12))
        return ended(64, *first, nn.AvgPool2d(2), Dense(52, 12), nn.ReLU())

    def depthwise(seed: int) -> Any:
        blocks = (Depthwise(16, 16, 1), Depthwise(16, 24, 2), Depthwise(24, 24, 1))
        return ended(24, convolution(3, 16, 2), nn.ReLU6(), *blocks)

    return {"residual": residual, "wide residual": wide_residual, "dense": dense, "depthwise": depthwise}


if __name__ == "__main__":
    main()
