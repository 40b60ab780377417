"""Options made from declared settings: their names, types, defaults and help stand where the settings do.

@options(Config)                   # every field of Config becomes an option ...
def run(given: Given, ...): ...    # ... and `given` holds those that the user named, by field
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from ofediq.errors import InputError, require, shown
from ofediq.settings import Declared, Settings, checked, declared, form

Given = dict[str, Any]
"""What the user named on the command line, by field."""

_TYPES: dict[str, Any] = {"integer": int, "number": float, "flag": bool, "path": Path, "table": list[str]}


class Variant(NamedTuple):
    """How one command's option differs from its declaration: in default, help, name and so on."""

    default: Any = None
    help: str | None = None
    name: str | None = None
    shown: str | None = None
    kind: Any = None
    required: bool = False


def options(
    kind: type[Settings], names: str = "", /, into: str = "given", panels: bool = True, **variants: Variant
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put the fields of `kind` before a command's own options.

    Args:
        kind: what declares the fields.
        names: the fields to offer, with spaces between them; by default those with a variant, or all.
        into: the command's parameter that takes, as a dict by field, what the user said.
        panels: whether the options stand in the panels of their declaration.
        variants: how some of them differ; a variant's default is there unless the user says more.
    """
    fields = {one.name: one for one in declared(kind)}
    offered = []
    for name in names.split() or variants or fields:
        one, variant = fields[name], variants.get(name, Variant())
        note = one.note if panels else one.note._replace(panel=None)
        offered.append((one._replace(kind=variant.kind or one.kind, note=note), variant))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        parameters = [
            inspect.Parameter(
                _name(one, variant),
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if variant.required else None,
                annotation=option(one, variant),
            )
            for one, variant in offered
        ]
        parameters += [
            own.replace(annotation=hints[own.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for own in inspect.signature(command).parameters.values()
            if own.name != into
        ]

        def wrapped(**values: Any) -> None:
            said: Given = {
                one.name: variant.default for one, variant in offered if variant.default is not None
            }
            for one, variant in offered:
                value = values.pop(_name(one, variant))
                if value is not None:
                    said[one.name] = checked(one.kind, parsed(one, value), _name(one, variant))
            command(**{into: said}, **values)

        wrapped.__name__, wrapped.__doc__, wrapped.__module__ = (
            command.__name__,
            command.__doc__,
            command.__module__,
        )
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        return wrapped

    return decorate


def option(one: Declared, variant: Variant = Variant()) -> Any:  # noqa: B008  # an immutable value
    """The option of a declared field, as typer wants it."""
    default = one.default if variant.default is None else variant.default
    shown = variant.shown or (one.note.shown if variant.default is None else None) or _words(default)
    settings: dict[str, Any] = {
        "help": variant.help or one.note.doc,
        "show_default": bool(shown) and not variant.required and shown,
        "rich_help_panel": one.note.panel,
    }
    kind = _TYPES.get(form(one.kind), str)
    flag = f"--{_name(one, variant).replace('_', '-')}"
    names = [f"{flag}/--no-{flag[2:]}"] if kind is bool else [flag]
    if kind == list[str]:
        settings["metavar"] = "NAME=VALUE"
    return Annotated[kind if variant.required else kind | None, typer.Option(*names, **settings)]


def parsed(one: Declared, value: Any) -> Any:
    """What an option's words mean, as a file would have it."""
    if isinstance(value, Path):
        return str(value.absolute())
    if form(one.kind) == "table":
        return dict(_named(text, one.note.option or one.name) for text in value)
    if form(one.kind) == "integers":
        return numbers(one.name, value, int)
    return split(value) if form(one.kind) == "texts" else value


def split(text: str) -> list[str]:
    """The parts between commas; those inside brackets belong to a part.

    >>> split("fedogd, fedpoe(inner=ofediq(levels=7,blocks=3), steps=9)")
    ['fedogd', 'fedpoe(inner=ofediq(levels=7,blocks=3), steps=9)']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def option_values(kind: type[Settings], text: str, option: str) -> tuple[str, list[Any]]:
    """A field of `kind` and some values for it, from words such as `budget=.1,.01`; `;` parts values with commas.

    >>> from ofediq.experiment.config import Config
    >>> option_values(Config, "budget=.1,.01", "over"), option_values(Config, "hidden=16;64,64", "over")
    (('budget', [0.1, 0.01]), ('hidden', [(16,), (64, 64)]))
    """
    name, equals, words = text.partition("=")
    name = name.strip().replace("-", "_")
    fields = {one.name: one for one in declared(kind)}
    require(bool(equals and words), option, "must look like name=value,value", text)
    require(name in fields, option, "must name one of the options", name)
    one, parts = fields[name], (words.split(";") if ";" in words else split(words))
    convert = {"integer": int, "number": float}.get(form(one.kind), str)
    try:
        values = [parsed(one, convert(part)) for part in parts]
    except ValueError:
        raise InputError(f"`{option}` must give {name} values of its kind, got {shown(words)}") from None
    return name, [checked(one.kind, value, name) for value in values]


def _name(one: Declared, variant: Variant) -> str:
    return variant.name or one.note.option or one.name


def _words(default: Any) -> str:
    """A default as one would type it."""
    if isinstance(default, (tuple, list)):
        return ",".join(map(str, default))
    return "" if default is None or isinstance(default, (dict, bool)) else f"{default}"


def _named(text: str, option: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    require(bool(equals and name), option, "must look like name=value", text)
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    return name, value


def numbers(name: str, text: str, kind: type[float] = float) -> list[Any]:
    """The numbers in `text`, with commas between them; errors name the option `name`.

    >>> numbers("budgets", "0.1,0.01")
    [0.1, 0.01]
    """
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        whole = "whole " * (kind is int)
        raise InputError(
            f"`{name}` must be {whole}numbers with commas between them, got {shown(text)}"
        ) from None
