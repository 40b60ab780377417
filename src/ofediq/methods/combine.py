"""How the messages of a round become one: added up, or by something that looks at each of them."""

from __future__ import annotations

import abc
from dataclasses import dataclass

from ofediq.arrays import Array
from ofediq.methods.pieces import piece


class Combine(abc.ABC):
    """From the messages of a round to the vector that the server rule gets.

    Attributes:
        adds: whether the result is the plain sum, so that nobody has to keep the messages apart.
    """

    adds: bool = False

    @abc.abstractmethod
    def total(self, messages: Array, sent: Array) -> Array:
        """One vector [dim] in the place of the sum, from `messages` [n, dim] of which those in `sent` [n] count.

        It has the size of a sum: a robust mean times the number of messages.
        """


@piece
@dataclass(frozen=True)
class Sum(Combine):
    """The plain sum."""

    adds = True

    def total(self, messages: Array, sent: Array) -> Array:
        """Added up."""
        return sent.astype(messages.dtype) @ messages


def add_up() -> Sum:
    """Messages are added up."""
    return Sum()
