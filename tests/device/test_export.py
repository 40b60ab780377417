"""The header that `ofediq export --device` writes."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.device import header
from ofediq.errors import InputError
from ofediq.federation.config import FederationConfig
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.federation.setup import assemble
from ofediq.methods import Method, at_budget, ofedgrid, ofediq
from ofediq.methods.zoo.scaffold import scaffold
from ofediq.methods.zoo.topk_ef import topk_ef
from tests.device.rounding import DeviceModel
from tests.device.test_client import DIGITS, ROOM

DOCUMENTED = Path(__file__).resolve().parents[2] / "docs/device.md"


def test_the_header_of_a_federation_is_that_of_its_announcement(tmp_path: Path) -> None:
    (tmp_path / "federation.toml").write_text(
        DOCUMENTED.read_text().partition("```toml\n")[2].partition("```")[0]
    )
    task = assemble(FederationConfig.read(tmp_path / "federation.toml")).task
    (tmp_path / "task.json").write_bytes(task.encode())
    for source in ("federation.toml", "task.json"):
        out = tmp_path / f"{source}.h"
        arguments = ["export", "--device", str(tmp_path / source), "--out", str(out), "--json"]
        assert json.loads(CliRunner().invoke(app, arguments).stdout)["dim"] == 650
        assert out.read_text() == header(task)
    assert f"OFEDIQ_TASK 0x{zlib.crc32(task.encode()):08X}u" in header(task)


@pytest.mark.parametrize(
    ("method", "spec", "word"),
    [
        (ofediq(0.1, 3, 14), ModelSpec("cnn", (28, 28), "classification", 10), "dense"),
        (ofediq(0.1, 3, 1), ModelSpec("dense 4, tanh, dense 1", (3,), "regression"), "tanh"),
        (scaffold(2), DIGITS, "got SCAFFOLD: it has Controlled$"),
        (topk_ef(5), DIGITS, r"got Top-k.*: it has ErrorFeedback$"),
        (at_budget("ofedduplex", 0.1, 650, 10), DIGITS, "got OFedDuplex: it has "),
        (at_budget("eden", 0.1, 650, 10), DIGITS, "got EDEN: it has "),
        (ofediq((0.1, 0.2), 3, 14), DIGITS, "a rate for each client"),
    ],
)
def test_what_a_device_cannot_do_is_said(method: Method, spec: ModelSpec, word: str) -> None:
    with pytest.raises(InputError, match=word):
        header(Task.of(method, spec, seed=0))


@pytest.mark.parametrize("spec", [DIGITS, ROOM, ModelSpec("mlp", (5,), "regression")])
def test_the_devices_arithmetic_is_the_models_to_a_few_units_in_the_last_place(spec: ModelSpec) -> None:
    model, rng = spec.build(), np.random.default_rng(0)
    pinned = DeviceModel(model)
    params = (model.initial(0) + rng.normal(0, 0.1, model.dim)).astype(np.float32)
    for _ in range(20):
        x, y = rng.normal(size=(1, *spec.shape)).astype(np.float32), np.array([1])
        exact, made = model.client_gradients(params, x, y), pinned.client_gradients(params, x, y)
        np.testing.assert_allclose(made, exact, rtol=1e-5, atol=2e-6)
        said, exactly = np.array(pinned.evaluate(params, x, y)), np.array(model.evaluate(params, x, y))
        # A square (p - y)^2 has the digits of p, which cancel: 2 |p - y| times what p itself may be off by, below.
        off = 1e-5 * np.abs(model.predict(params, x)) if spec.task == "regression" else 0.0
        np.testing.assert_array_less(
            np.abs(said - exactly), 1e-5 * np.abs(exactly) + 2 * np.sqrt(exactly) * off + 1e-30
        )
        assert pinned.predict(params, x) == pytest.approx(model.predict(params, x), rel=1e-5)


def test_a_method_without_a_scale_fits_as_well() -> None:
    assert "#define OFEDIQ_SCALARS 1" in header(Task.of(ofedgrid(1000.0), DIGITS, seed=0))


def test_the_header_may_go_to_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    task = Task.of(ofediq(0.1, 3, 14), DIGITS, seed=0)
    (tmp_path / "task.json").write_bytes(task.encode())
    out = tmp_path / "firmware/main/ofediq_config.h"
    runner, arguments = CliRunner(), ["export", "--device", str(tmp_path / "task.json"), "--out"]
    assert runner.invoke(app, [*arguments, str(out)]).exit_code == 0
    assert out.read_text() == header(task)
    refused = runner.invoke(app, [*arguments, str(tmp_path / "task.json" / "below.h")])
    assert isinstance(refused.exception, InputError)
    assert "`out` must be a file that can be written" in str(refused.exception)
