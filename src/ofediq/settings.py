"""What a user may choose, declared once.

A frozen dataclass that derives from `Settings` says for each field its type with range or choices, its default and
one line of documentation. Values given in Python, in a file or on the command line are all checked against the same
declaration, nothing is converted silently ("5" and true are no numbers), and what is wrong is one sentence.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta, inspect

from ofediq.errors import InputError, not_among, shown

Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Fraction = Annotated[float, Meta(gt=0, le=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Fading = Annotated[float, Meta(ge=0, lt=1)]
Between = Annotated[float, Meta(gt=0, lt=1)]
Factor = Annotated[float, Meta(ge=1, le=sys.float_info.max)]
Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0, le=sys.float_info.max)]
NonNegative = Annotated[float, Meta(ge=0, le=sys.float_info.max)]
Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Seconds = Annotated[float, Meta(gt=0, le=10**7)]
Text = Annotated[str, Meta(pattern=r"\A[^\0]{1,4096}\Z", extra={"rule": "be a text"})]
FilePath = Annotated[str, Meta(pattern=r"\A[^\0]{1,4096}\Z", extra={"rule": "be a path", "path": True})]
FolderPath = Annotated[Path, Meta(extra={"rule": "be a path", "path": True})]

_FORMS = {
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "flag",
    inspect.DictType: "table",
}


def limited(low: int, high: int) -> Meta:
    """Integers from `low` to `high`, for `Annotated[int, ..]`."""
    return Meta(ge=low, le=high)


def one_of(address: str) -> Meta:
    """The choices of a room, for `Annotated[str, ..]`: looked up when a value is checked, so that nothing is loaded.

    Args:
        address: `module:name` of a tuple of texts, or of a `Literal`.
    """
    return Meta(extra={"choices": address})


def accepted_by(address: str) -> Meta:
    """Texts that a room's function accepts, for `Annotated[str, ..]`; it is looked up when a value is checked.

    Args:
        address: `module:name` of a function that raises `InputError` for a text it does not understand.
    """
    return Meta(max_length=1000, extra={"check": address})


class Note(NamedTuple):
    """What a declaration says beside type and default.

    Attributes:
        doc: one line for people.
        shown: the default in words, where it depends on other choices.
        panel: the part of a help page that begins here; "" for none.
        option: name on the command line, if it differs.
        key: name in a file, if it differs.
        table: table of a file, where one class covers several.
    """

    doc: str
    shown: str | None = None
    panel: str | None = None
    option: str | None = None
    key: str | None = None
    table: str | None = None


def setting(default: Any, doc: str, **note: str | None) -> Any:
    """A field of `Settings`: its default (`...` if it must be given), a line of documentation, what `Note` holds."""
    metadata = {"note": Note(doc, **note)}
    if default is ...:
        return field(metadata=metadata)
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata=metadata)
    return field(default=default, metadata=metadata)


class Declared(NamedTuple):
    """One field as declared: name, type, default (`MISSING` if it must be given) and note."""

    name: str
    kind: Any
    default: Any
    note: Note

    @property
    def key(self) -> str:
        """Its name in a file."""
        return self.note.key or self.name


class Settings:
    """Base of frozen dataclasses whose fields are checked against their declaration when one is made.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pace(Settings):
    ...     interval: Positive = setting(1.0, "Seconds between openings.")
    >>> Pace(interval=2).interval
    2.0
    >>> Pace.from_table({"interval": "5"}, "rounds")
    Traceback (most recent call last):
    ofediq.errors.InputError: `interval` in [rounds] must be a finite number > 0, got '5'
    >>> Pace.from_table({"intervall": 5}, "rounds")
    Traceback (most recent call last):
    ofediq.errors.InputError: `intervall` is not known in [rounds]: did you mean 'interval'?
    """

    def __post_init__(self) -> None:
        for one in declared(type(self)):
            object.__setattr__(self, one.name, checked(one.kind, getattr(self, one.name), one.name))

    @classmethod
    def from_table(cls, content: object, table: str) -> Self:
        """Settings from one table of a file; the sentence about a mistake names table and key."""
        return cls(**from_table(cls, content, table))


class Ranged:
    """Base of frozen dataclasses whose types say what their numbers may be, such as pieces of methods.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Pull(Ranged):
    ...     size: Fading = 0.5
    ...     side: Literal["left", "right"] = "left"
    >>> Pull(size=1.0)
    Traceback (most recent call last):
    ofediq.errors.InputError: `size` must lie in [0, 1), got 1.0
    """

    def __post_init__(self) -> None:
        own: Any = type(self)
        for name, kind in _ranges(own):
            value = getattr(self, name)
            try:
                msgspec.convert(_python(value), kind)
            except msgspec.ValidationError:
                raise InputError(f"`{name}` must {rule(kind)}, got {shown(value)}") from None


@functools.cache
def _ranges(kind: type[Any]) -> tuple[tuple[str, Any], ...]:
    """The fields of a class whose types say more than that they are numbers or texts."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # of a class inside a function, or a name that only type checkers read
        return ()
    found = ((one.name, hints[one.name]) for one in fields(kind))
    return tuple(
        (name, hint)
        for name, hint in found
        if {Annotated, Literal} & {get_origin(one) for one in (hint, *get_args(hint))}
    )


def declared(kind: type[Any], table: str | None = None) -> tuple[Declared, ...]:
    """The settings among a class's fields, in their order; with `table` those of this table of a file."""
    if kind not in _DECLARED:  # looking up the types takes a millisecond
        hints, panel = get_type_hints(kind, include_extras=True), None
        found = []
        for one in fields(kind):
            if "note" in one.metadata:
                note = one.metadata["note"]
                panel = (note.panel or None) if note.panel is not None else panel
                found.append(Declared(one.name, hints[one.name], _default(one), note._replace(panel=panel)))
        _DECLARED[kind] = tuple(found)
    return tuple(one for one in _DECLARED[kind] if table is None or one.note.table in (None, table))


_DECLARED: dict[type[Any], tuple[Declared, ...]] = {}


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def from_table(kind: type[Any], content: object, table: str) -> dict[str, Any]:
    """The arguments for `kind` in a table of a file, each one known, given where it must be, and checked.

    Args:
        kind: a dataclass whose fields are declared.
        content: what the file holds.
        table: the table's name; "" for the top of the file.
    """
    where = f" in [{table}]" if table else ""
    if not isinstance(content, Mapping):
        raise InputError(f"`{table or 'config'}` must be a table, got {shown(content)}")
    known = declared(kind, table or None)
    refuse_unknown(content, tuple(one.key for one in known), table)
    for one in known:
        if one.key not in content and one.default is MISSING:
            raise InputError(f"`{one.key}`{where} must be given: it must {rule(one.kind)}")
    return {
        one.name: checked(one.kind, content[one.key], one.key, where) for one in known if one.key in content
    }


def refuse_unknown(content: Mapping[Any, Any], known: tuple[str, ...], table: str) -> None:
    """Raise `InputError` for a key that is not known, with the one that was probably meant."""
    for key in content:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"it knows {', '.join(known)}"
            raise InputError(
                f"`{key}` is not known in {f'[{table}]' if table else 'the configuration'}: {hint}"
            )


def checked(kind: Any, value: Any, name: str, where: str = "") -> Any:
    """`value` as the declared type `kind` has it, or `InputError` with name, rule and value.

    >>> checked(tuple[str, ...], ["a", "b"], "roster")
    ('a', 'b')
    >>> checked(tuple[str, ...], "ab", "roster", " in [clients]")
    Traceback (most recent call last):
    ofediq.errors.InputError: `roster` in [clients] must be a list of texts, got 'ab'
    """
    plain = _python(value)
    plain = os.fspath(plain) if isinstance(plain, os.PathLike) else plain
    try:
        found = msgspec.convert(plain, kind, dec_hook=_path)
    except msgspec.ValidationError:
        secret = isinstance(value, str) and _plain(inspect.type_info(kind))[1].get("secret")
        complaint = f"must {rule(kind)}, got {'another' if secret else shown(value)}"
    else:
        complaint = _complaint(inspect.type_info(kind), found)
    if complaint:
        raise InputError(f"`{name}`{where} {complaint}")
    return found


def _python(value: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    return value.item() if hasattr(value, "dtype") and getattr(value, "ndim", None) == 0 else value


def _complaint(info: inspect.Type, value: Any) -> str:
    """What the room that owns the choices says about a value of the right type; empty if it is one of them."""
    info, extra = _plain(info)
    if value is None:
        return ""
    if isinstance(info, inspect.VarTupleType):
        return next(filter(None, (_complaint(info.item_type, one) for one in value)), "")
    if "choices" in extra and value not in (allowed := _owned(extra["choices"])):
        return not_among(value, tuple(allowed))
    if "check" in extra:
        try:
            _owned(extra["check"])(value)
        except InputError as error:
            return re.sub(r"\A`\w+` ", "", str(error))  # the setting has a name of its own
    return ""


def _owned(address: str) -> Any:
    """What a room calls so: `module:name`; for a `Literal` its texts."""
    module, _, name = address.partition(":")
    found = getattr(importlib.import_module(module), name)
    return get_args(found) or found


def _path(kind: type[Any], value: object) -> Path:
    """A path from a text, for msgspec."""
    if kind is not Path or not isinstance(value, str) or not 0 < len(value) <= 4096 or "\0" in value:
        raise ValueError
    return Path(value)


def choices(kind: Any) -> tuple[str, ...]:
    """What a value of this type may be one of; empty if it is not a choice."""
    info, extra = _plain(inspect.type_info(kind))
    if isinstance(info, inspect.LiteralType):
        return next(
            get_args(one) for one in (kind, *get_args(kind)) if get_origin(one) is Literal
        )  # in their order
    return tuple(_owned(extra["choices"])) if "choices" in extra else ()


def rule(kind: Any) -> str:
    """What a value of a declared type must do, in words after "must".

    >>> rule(Fraction), rule(Seed), rule(bool | None), rule(tuple[str, ...])
    ('lie in (0, 1]', 'be an integer from 0 to 4294967295', 'be true or false', 'be a list of texts')
    """
    allowed = choices(kind)
    if allowed:
        return f"be one of {', '.join(allowed)}"
    info, extra = _plain(inspect.type_info(kind))
    if "rule" in extra:
        return str(extra["rule"])
    if isinstance(info, inspect.VarTupleType):
        item, item_extra = _plain(info.item_type)
        limit = "" if info.max_length is None else f"at most {info.max_length} "
        return f"be a list of {limit}{item_extra.get('plural') or _plural(item)}"
    return _rule(info)


def form(kind: Any) -> str:
    """What values of a declared type look like: integer, number, flag, text, path, table, integers or texts.

    >>> form(Fraction), form(bool | None), form(tuple[str, ...] | None)
    ('number', 'flag', 'texts')
    """
    info, extra = _plain(inspect.type_info(kind))
    if isinstance(info, inspect.VarTupleType):
        return f"{_FORMS.get(type(_plain(info.item_type)[0]), 'text')}s"
    return "path" if extra.get("path") else _FORMS.get(type(info), "text")


def _plain(info: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    """A type without "or None", and what is noted about it."""
    extra: dict[str, Any] = {}
    while True:
        if isinstance(info, inspect.Metadata):
            extra, info = {**extra, **(info.extra or {})}, info.type
        elif isinstance(info, inspect.UnionType):
            others = [one for one in info.types if not isinstance(one, inspect.NoneType)]
            if len(others) != 1:
                return info, extra
            info = others[0]
        else:
            return info, extra


def _rule(info: inspect.Type) -> str:
    if isinstance(info, inspect.IntType):
        return f"be an integer{_range(info)}"
    if isinstance(info, inspect.FloatType):
        if 1 in (info.le, info.lt):
            return f"lie in {'[' if info.gt is None else '('}0, 1{']' if info.lt is None else ')'}"
        return f"be a {'finite ' if info.le == sys.float_info.max else ''}number{_range(info)}"
    if isinstance(info, inspect.BoolType):
        return "be true or false"
    if isinstance(info, inspect.DictType):
        return "be a table"
    limit = getattr(info, "max_length", None)
    return "be a text" if limit is None else f"be a text of at most {limit} characters"


def _plural(info: inspect.Type) -> str:
    return f"integers{_range(info)}" if isinstance(info, inspect.IntType) else "texts"


def _range(info: inspect.IntType | inspect.FloatType) -> str:
    low = f" >= {info.ge}" if info.ge is not None else f" > {info.gt}" if info.gt is not None else ""
    if info.le is None or info.le == sys.float_info.max:
        return "" if info.ge == -sys.float_info.max else low
    return f" from {info.ge} to {info.le}" if info.ge is not None else f"{low} and <= {info.le}"
