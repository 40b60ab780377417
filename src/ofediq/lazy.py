"""What a package offers, said once: the names that it imports, at once or when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(package: str, names: Mapping[str, str], extra_name: str = "sim") -> Attached:
    """`__getattr__`, `__dir__` and `__all__` of `package`: a name's module is imported when it is first asked for.

    A name whose extra is not installed says which one to install.

    Args:
        package: the package's own `__name__`.
        names: for each module below the package the public names in it, with spaces; a module that is public itself
            is one of its names.
        extra_name: the extra that brings what is missing.

    >>> look_up, _, listed = attach("ofediq", {"errors": "errors require"})
    >>> look_up("require").__name__, look_up("errors").__name__, listed
    ('require', 'ofediq.errors', ['errors', 'require'])
    """
    homes = {name: module for module, some in names.items() for name in some.split()}

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

    return look_up, lambda: sorted({*vars(sys.modules[package]), *homes}), sorted(homes)


def public(names: Mapping[str, Any]) -> list[str]:
    """`__all__` of a package that offers what it imports and defines; `names` are its `globals()`.

    >>> public({"__doc__": "A package.", "plan": print, "_helper": print, "theory": sys})
    ['plan']
    """
    return sorted(
        name
        for name, value in names.items()
        if not (name.startswith("_") or isinstance(value, ModuleType) or value is public)
    )
