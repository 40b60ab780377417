"""Packages whose names are looked up when they are first used, so that reading one of them does not load the rest."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def attach(package: str, homes: Mapping[str, str], extra_name: str = "sim") -> Callable[[str], Any]:
    """The `__getattr__` of `package`: imports the module of a name when it is first asked for.

    A name whose extra is not installed says which one to install.

    Args:
        package: the package's own `__name__`.
        homes: for each public name its module, below the package; a module that is public comes from itself.
        extra_name: the extra that brings what is missing.

    >>> attach("ofediq", {"require": "errors"})("require").__name__
    'require'
    """

    def look_up(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(f"{package}.{homes[name]}")
        except ModuleNotFoundError as error:
            if error.name is None or error.name.startswith("ofediq"):
                raise
            from ofediq.errors import extra

            extra(error.name, extra_name)  # says what to install
            raise
        return module if homes[name] == name else getattr(module, name)

    return look_up
