"""Wheel and sdist build, hold what they must, and work where only the base dependencies are installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import ofediq
from tests.packaging.clean import Clean

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ofediq"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def clean(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Clean:
    return Clean(tmp_path_factory.mktemp("venv"), only(built, "*.whl"))


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_every_file_of_the_package_is_in_the_wheel(built: Path) -> None:
    names = zipfile.ZipFile(only(built, "*.whl")).namelist()
    files = {
        str(path.relative_to(SOURCE.parent))
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"ofediq/py.typed", "ofediq/kernels/source/window.c"} <= files
    assert files == {name for name in names if name.startswith("ofediq/")}
    assert all(name.startswith(("ofediq/", f"ofediq-{ofediq.__version__}.dist-info/")) for name in names)


def test_the_sdist_has_what_a_packager_needs(built: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        parts = {Path(name).parts[1] for name in archive.getnames()}
    assert {"src", "tests", "docs", "examples", "pyproject.toml", "README.md", "LICENSE", "Makefile"} <= parts
    assert not {".venv", "runs", "site", ".git"} & parts


def test_only_the_base_dependencies_are_there(clean: Clean) -> None:
    plain = {requirement.name for requirement in clean.requirements if requirement.marker is None}
    assert plain == {"numpy", "constriction", "msgspec", "typer", "rich"}
    assert clean.python("import numpy, constriction, msgspec, typer, rich").returncode == 0
    for heavy in ("jax", "scipy", "pandas", "matplotlib", "sklearn", "aiomqtt", "starlette"):
        assert "ModuleNotFoundError" in clean.python(f"import {heavy}").stderr


def test_version_and_plan(clean: Clean) -> None:
    assert clean.run("ofediq", "--version").stdout == f"ofediq {ofediq.__version__}\n"
    plan = json.loads(clean.run("ofediq", "plan", "--budget", "0.01", "--dim", "34826", "--json").stdout)
    assert (plan["levels"], plan["blocks"]) == (3, 484)  # docs/theory.md, over all integers
    assert "Usage: ofediq" in clean.run("ofediq").stdout


def test_the_codec_goes_there_and_back(clean: Clean) -> None:
    code = """
import numpy as np
from ofediq.codec import decode, encode, quantize
message = quantize(np.arange(1000.0), levels=3, blocks=20, seed=0)
print((decode(encode(message)).dequantize() == message.dequantize()).all())
"""
    assert clean.python(code).stdout == "True\n"


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("run", "jax", "sim"),
        ("frontier", "jax", "sim"),
        ("reproduce --quick", "jax", "sim"),
        ("up", "jax", "sim"),
        ("data", "pooch", "sim"),
        ("certs authority", "cryptography", "federation"),
    ],
)
def test_a_missing_extra_is_one_sentence(clean: Clean, command: str, package: str, extra: str) -> None:
    done = clean.run("ofediq", *command.split())
    sentence = f"ofediq: error: {package} is not installed: it comes with `pip install 'ofediq[{extra}]'`\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_the_doctor_says_what_is_missing(clean: Clean) -> None:
    found = json.loads(clean.run("ofediq", "doctor", "--json").stdout)
    assert found["packages"]["jax"] is None
    assert "jax" in found["extras"]["sim"]
    assert set(found["extras"]["sim"]) < set(found["extras"]["flax"])  # an extra of an extra
    assert found["kernels"] == "jax is not installed: it comes with `pip install 'ofediq[sim]'`"


def test_a_missing_extra_in_python(clean: Clean) -> None:
    code = "import ofediq\ntry: ofediq.simulate\nexcept ImportError as error: print(error)"
    assert clean.python(code).stdout == "jax is not installed: it comes with `pip install 'ofediq[sim]'`\n"
