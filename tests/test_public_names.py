import importlib
import inspect
import subprocess
import sys

import pytest

import ofediq
from ofediq.errors import MissingExtraError

NAMES = {
    "Dataset",
    "Plan",
    "Regret",
    "Result",
    "Stream",
    "__version__",
    "codec",
    "dashboard",
    "errors",
    "experiment",
    "federation",
    "load",
    "load_file",
    "load_model",
    "methods",
    "models",
    "naive_references",
    "partition",
    "plan",
    "report",
    "simulate",
    "simulation",
    "streams",
    "synthetic",
    "testing",
    "theory",
    "tracking",
}


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_public_names() -> None:
    assert set(ofediq.__all__) == NAMES
    assert set(dir(ofediq)) >= NAMES


@pytest.mark.parametrize("name", sorted(NAMES - {"__version__"}))
def test_every_name_leads_to_its_room(name: str) -> None:
    value = getattr(ofediq, name)
    assert value.__name__.rpartition(".")[2] == name
    assert getattr(value, "__module__", value.__name__).startswith("ofediq.")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'ofediq' has no attribute 'simulat'$"):
        ofediq.simulat  # type: ignore[attr-defined]  # noqa: B018  # the error is the test


def test_importing_the_package_loads_no_room() -> None:
    loaded = python("import sys, ofediq; print(*sys.modules)").split()
    assert "ofediq" in loaded
    assert not {"numpy", "jax", "matplotlib", "pandas", "typer"} & set(loaded)
    assert [name for name in loaded if name.startswith("ofediq.")] == ["ofediq.lazy"]


def test_planning_needs_no_extra() -> None:
    hide = "import sys; sys.modules.update(dict.fromkeys(['jax', 'optax', 'scipy', 'pandas', 'matplotlib']))"
    assert python(f"{hide}\nimport ofediq; print(ofediq.plan(0.01, 34826, method='paper').levels)") == "3\n"


def test_a_missing_extra_is_named() -> None:
    code = """
import sys
sys.modules["jax"] = None
import ofediq
try:
    ofediq.simulate
except ofediq.errors.MissingExtraError as error:
    print(error)
"""
    assert python(code) == "jax is not installed: it comes with `pip install 'ofediq[sim]'`\n"
    assert issubclass(MissingExtraError, ImportError)


@pytest.mark.parametrize("room", ["experiment", "federation"])
def test_rooms_that_load_late_list_their_names(room: str) -> None:
    loaded = getattr(ofediq, room)
    assert set(loaded.__all__) <= set(dir(loaded))
    assert all(getattr(loaded, name).__name__ == name for name in loaded.__all__)
    with pytest.raises(AttributeError, match=rf"^module 'ofediq\.{room}' has no attribute 'nothing'$"):
        loaded.nothing  # noqa: B018  # the error is the test


@pytest.mark.parametrize(
    "room", ["streams", "methods", "models", "simulation", "theory", "federation", "report"]
)
def test_options_are_given_by_name(room: str) -> None:
    """No more than five arguments by place, as the paper's presets have: `ofediq(p, s, b, L, eta)`."""
    home = importlib.import_module(f"ofediq.{room}")
    for name in home.__all__:
        value = getattr(home, name)
        if inspect.isfunction(value):
            kinds = [each.kind for each in inspect.signature(value).parameters.values()]
            assert kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD) <= 5, name
