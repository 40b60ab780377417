"""A clean environment without a network: a new venv that sees the declared dependencies and nothing else."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement


class Clean:
    """A venv with one wheel and, from the environment of the tests, what the wheel says it needs."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.bin = folder / "bin"
        self.work = folder / "work"  # far from the checkout, which Python must not find
        self.work.mkdir()
        install = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet"]
        subprocess.run([*install, "--no-deps", "--no-index", str(wheel)], check=True, timeout=60)
        site = Path(self.python("import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        code = "from importlib.metadata import requires; print('\\n'.join(requires('ofediq')))"
        self.requirements = [Requirement(line) for line in self.python(code).stdout.splitlines()]
        for needed in closure(self.requirements):
            link(needed, site)

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Run a line of Python."""
        return self.run("python", "-c", code)

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, with nothing inherited that could find another ofediq."""
        return subprocess.run(
            [str(self.bin / program), *arguments],
            capture_output=True,
            text=True,
            cwd=self.work,
            env={"HOME": str(self.work), "COLUMNS": "100"},
            timeout=60,
            check=False,
        )


def closure(requirements: list[Requirement], extra: str = "") -> list[Distribution]:
    """The distributions that a plain install brings, with all that they need themselves."""
    found: dict[str, Distribution] = {}
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": extra})
        if wanted and requirement.name not in found:
            found[requirement.name] = distribution(requirement.name)
            waiting += [Requirement(line) for line in found[requirement.name].requires or []]
    return list(found.values())


def link(needed: Distribution, site: Path) -> None:
    """Make the files of a distribution importable in `site`, its metadata included."""
    tops = {file.parts[0] for file in needed.files or [] if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(needed.locate_file(top))))
