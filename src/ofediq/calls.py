"""Texts such as `name(parameter=value, ...)`: how methods and models are named with their parameters."""

from __future__ import annotations

import ast
from typing import Any

from ofediq.errors import InputError, require, shown


def parse_call(text: str, *, what: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters in `text`; values are Python literals, other words are texts, calls stay calls.

    A word or call without a name is what this one wraps, and is called `inner`. `what` is what errors say it is.

    >>> parse_call("ofediq(levels=7, coding=entropy)", what="method")
    ('ofediq', {'levels': 7, 'coding': 'entropy'})
    >>> parse_call("fedpoe(ofediq(levels=7), mixing=adaptive)", what="method")
    ('fedpoe', {'inner': 'ofediq(levels=7)', 'mixing': 'adaptive'})
    """
    rule = "must be a name, or name(parameter=value, ...)"
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (
        AttributeError,
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # the first of what is no text
        raise InputError(f"`{what}` {rule}, got {shown(text)}") from None
    if isinstance(call, ast.Name):
        return call.id, {}
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise InputError(f"`{what}` {rule}, got {text!r}")
    inner = [one for one in call.args if isinstance(one, (ast.Name, ast.Call))]
    names = [one.arg for one in call.keywords] + ["inner"] * len(inner)
    plain = None not in names and len(set(names)) == len(names)
    require(plain and len(inner) == len(call.args), what, rule, text)
    values = {str(one.arg): _literal(one.value, text, what) for one in call.keywords}
    wrapped = {"inner": _literal(inner[0], text, what)} if inner else {}
    return call.func.id, {**wrapped, **values}


def _literal(node: ast.expr, text: str, what: str) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call):
        return ast.unparse(node)
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise InputError(f"`{what}` must have numbers, texts or lists as values, got {text!r}") from None
