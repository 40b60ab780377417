"""Adapted models whose outputs may come from layers that are known: these compute instead, faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from ofediq.arrays import Array
from ofediq.errors import InputError
from ofediq.models.base import Model
from ofediq.models.stack import Network
from ofediq.models.stages import Shape

Lowering = Callable[[Shape], Network | str]
"""From the shape of a sample to a stack of layers with the same outputs, or why there is none."""


class LoweredModel(Model):
    """A model that looks for its stack of layers once for each shape of samples."""

    lowered: Lowering | str

    def stack(self, shape: Shape) -> Network | str:
        """The layers that compute the same, with the same flat vector and start, or why there are none."""
        if isinstance(self.lowered, str):
            return self.lowered
        if shape not in self._stacks:
            found = self.lowered(shape)
            if isinstance(found, Network):
                found = replace(found, start=self.initial, chunk=min(found.chunk, self.chunk))
            self._stacks[shape] = found
        return self._stacks[shape]

    @cached_property
    def _stacks(self) -> dict[Shape, Network | str]:
        """What has been found."""
        return {}

    def _layers(self, xs: Array, ys: Array | None = None) -> Network | None:
        """The stack for these samples, if there is one and it has a score for each of these labels."""
        found = self.stack(tuple(xs.shape[1:]))
        if isinstance(found, str):
            return None
        known = isinstance(ys, np.ndarray) and self.task == "classification" and ys.size > 0
        if known and int(np.max(ys)) >= found.outputs:  # type: ignore[arg-type]  # an array here
            raise InputError(
                f"`module` must give a score for every label, got {found.outputs} for label {int(np.max(ys))}"  # type: ignore[arg-type]  # likewise
            )
        return found
