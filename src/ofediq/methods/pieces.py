"""Pieces that can be written down: every piece is a frozen dataclass, registered under a name.

`describe` turns a piece into JSON, `restore` turns it back. The identity of a run, the task that a server announces
to its clients and the documentation all come from here; a package that brings pieces of its own registers them
with the same decorator.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from enum import IntEnum
from typing import Any, TypeVar

import msgspec

from ofediq.errors import InputError, shown

Kind = TypeVar("Kind", bound=type)

_REGISTERED: dict[str, type] = {}


def piece(kind: Kind) -> Kind:
    """Register a frozen dataclass under the name of its class, in lower case with underscores."""
    if not dataclasses.is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # not in the stubs
        raise InputError(f"`piece` must be a frozen dataclass, got {kind.__name__}")
    name = name_of(kind)
    known = _REGISTERED.setdefault(name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise InputError(f"`piece` must have a name of its own, got {name!r} for {kind} and {known}")
    _REGISTERED[name] = kind
    return kind


def name_of(kind: type) -> str:
    """The name of a piece's class.

    >>> name_of(type("NormProportional", (), {}))
    'norm_proportional'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()


def describe(value: Any) -> Any:
    """A piece, or what is inside one, as JSON.

    >>> from ofediq.methods import bernoulli
    >>> describe(bernoulli(0.25))
    {'piece': 'bernoulli', 'rate': 0.25}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = {
            one.name: describe(getattr(value, one.name)) for one in dataclasses.fields(value) if one.repr
        }
        return {"piece": name_of(type(value)), **shown}
    if isinstance(value, IntEnum):
        return int(value)
    if isinstance(value, (tuple, list)):
        return [describe(one) for one in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"`piece` must hold numbers, texts and other pieces, got {value!r}")


def restore(content: Any, wanted: type) -> Any:
    """The piece in `content`, which must be a `wanted`; `InputError` says what is not understood.

    >>> from ofediq.methods import Participation, bernoulli
    >>> restore(describe(bernoulli(0.25)), Participation)
    Bernoulli(rate=0.25)
    """
    if not isinstance(content, dict) or not isinstance(content.get("piece"), str):
        raise InputError(f"`{wanted.__name__}` must be an object with a `piece`, got {shown(content)}")
    if content["piece"] not in _REGISTERED:
        from ofediq.methods.registry import entries

        entries()  # it may come with a method of another package
    kind = _REGISTERED.get(content["piece"])
    if kind is None or not issubclass(kind, wanted):
        raise InputError(f"`piece` must be a known {wanted.__name__}, got {shown(content['piece'])}")
    fields = [one.name for one in dataclasses.fields(kind) if one.repr]  # type: ignore[arg-type]  # by `piece`
    values = {name: value for name, value in content.items() if name != "piece"}
    unknown = set(values) - set(fields)
    if unknown:
        raise InputError(f"`{content['piece']}` has no field {shown(sorted(unknown)[0])}")
    hints = typing.get_type_hints(kind)
    given = {name: _value(content["piece"], name, value, hints[name]) for name, value in values.items()}
    try:
        return kind(**given)
    except TypeError as error:  # a field is missing
        raise InputError(f"`{content['piece']}` must have all of its fields: {error}") from None


def _value(owner: str, name: str, value: Any, hint: Any) -> Any:
    """`value` as the type that the field `name` asks for, or `InputError`."""
    if isinstance(value, dict):
        wanted = next((one for one in (hint, *typing.get_args(hint)) if isinstance(one, type)), object)
        return restore(value, wanted)
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError:
        wanted = getattr(hint, "__name__", hint)
        raise InputError(f"`{name}` of {owner} must be of type {wanted}, got {shown(value)}") from None
