"""What is asked of a torch module, and how torch is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ofediq.errors import InputError, extra

Tensor = Any
"""A `torch.Tensor`; the library is not imported before it is needed."""


def made(make: Any, seed: int) -> Any:
    """The module for this seed; the caller's random state stays as it is."""
    torch = extra("torch", "torch")
    if not callable(make):
        raise InputError(f"`module` must be an nn.Module or a function from a seed to one, got {make!r}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = make(seed)
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"`module` must give an nn.Module for a seed, got {module!r}")
    return module


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Run torch with `count` threads, then as before."""
    torch = extra("torch", "torch")
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def learnt(module: Any) -> list[tuple[str, Tensor]]:
    """Names and values of the parameters that require a gradient; shared ones once."""
    return [(name, value) for name, value in module.named_parameters() if value.requires_grad]
