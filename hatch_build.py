"""Wheels with compiled kernels: `OFEDIQ_WHEEL=x86_64 python -m build --wheel --no-isolation`, or `aarch64`.

Without the variable the wheel has none and fits every machine: kernels are then compiled at first use. Levels of
x86-64 are chosen when the library is loaded. The C compilers are gcc and Debian's cross compilers ($CC comes first);
JAX must be installed where the wheel is built, because the kernels are called from its programs.
"""

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_TARGETS = {
    "x86_64": {f"x86-64-{level}": f"-march=x86-64-{level}" for level in ("v2", "v3", "v4")},
    "aarch64": {"aarch64": "-march=armv8-a"},
}


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]  # it has no configuration
    """Compiles the kernels of one kind of machine into a wheel that is for it alone."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel is made."""
        machine = os.environ.get("OFEDIQ_WHEEL", "")
        if not machine or version == "editable":
            return
        if machine not in _TARGETS:
            raise ValueError(f"`OFEDIQ_WHEEL` must be one of {', '.join(_TARGETS)}, got {machine!r}")
        sys.path.insert(0, str(Path(self.root) / "src"))
        from ofediq.kernels import library

        usual = "gcc" if machine == platform.machine() else f"{machine}-linux-gnu-gcc"
        compiler = os.environ.get("CC", usual).split()
        self._folder = tempfile.TemporaryDirectory()
        for name, option in _TARGETS[machine].items():
            made = Path(self._folder.name) / f"kernels-{name}.so"
            subprocess.run(library.command((*compiler,), (option,), made), check=True)
            build_data["force_include"][str(made)] = f"ofediq/kernels/prebuilt/{made.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{platform.libc_ver()[1].replace('.', '_')}_{machine}"
