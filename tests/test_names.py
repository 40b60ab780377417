"""One word, one thing: no two classes share a name, and no function hides a module."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import ofediq

# Words with two homes, each with its reason.
KNOWN = {
    "FederatedClassifier",  # for River and in scikit-learn's style: users of either expect this name
    "FederatedRegressor",
    "Grid",  # the scheme on the wire, and the same as compressor of a method
    "Identity",  # the compressor and the layer that change nothing: users write both
    "Signs",  # as Grid
}


def test_every_class_has_a_name_of_its_own() -> None:
    homes = defaultdict(list)
    root = Path(ofediq.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(root)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1 and name not in KNOWN} == {}


def test_no_function_shadows_a_module() -> None:
    for package in (info.name for info in pkgutil.walk_packages(ofediq.__path__, "ofediq.") if info.ispkg):
        room = importlib.import_module(package)
        for module in pkgutil.iter_modules(room.__path__):
            named = getattr(room, module.name, None)
            assert named is None or isinstance(named, ModuleType), (
                f"{package}.{module.name} is not the module"
            )
