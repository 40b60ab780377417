"""What wrappers have from what they wrap."""

from __future__ import annotations

from typing import Any


class _OfInner:
    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, one: Any, owner: type | None = None) -> Any:
        return self if one is None else getattr(one.inner, self._name)


def of_inner() -> Any:
    """In the body of a class: this attribute, or method, is the one of `inner`.

    >>> class Quoted:
    ...     upper = of_inner()
    ...     def __init__(self, inner: str) -> None:
    ...         self.inner = inner
    >>> Quoted("word").upper()
    'WORD'
    """
    return _OfInner()
