"""The kernels on an ARM processor with 64 bits, by Debian's cross compiler and qemu."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ofediq import models
from ofediq.kernels.library import SOURCES
from ofediq.models import Network
from ofediq.simulation.native import native_status
from ofediq.simulation.native.layout import SenderRules, network_numbers
from ofediq.simulation.native.window import Kernels
from tests.simulation.test_native import some_samples

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
pytestmark = [
    pytest.mark.skipif(not native_status().startswith("compiled"), reason=native_status()),
    pytest.mark.skipif(
        not shutil.which(COMPILER) or not shutil.which(EMULATOR), reason=f"no {COMPILER} or {EMULATOR}"
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("cross") / "window"
    main = Path(__file__).parent / "cross" / "window_main.c"
    flags = ["-O2", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-static", "-pthread"]
    command = [COMPILER, *flags, f"-I{SOURCES}", "-o", str(made), str(main), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return made


@pytest.mark.parametrize(
    "rules",
    [
        SenderRules(),
        SenderRules(form="quantized", levels=3, blocks=5),
        SenderRules(moves=True, step_size=0.05),
    ],
)
@pytest.mark.parametrize(
    "model",
    [models.cnn(13, 14, 3), models.mlp_regressor(5, hidden=(20, 9)), models.softmax(30, 4)],
    ids=["cnn", "mlp", "softmax"],
)
def test_an_emulated_processor_finds_the_same(
    model: Network, rules: SenderRules, program: Path, tmp_path: Path
) -> None:
    x, y = some_samples(model, 12)
    order = np.arange(12, dtype=np.int32).reshape(2, 6)
    sends, rates = np.array([1, 1, 0, 1, 0, 1], np.uint8), np.linspace(0.5, 1, 6, dtype=np.float32)
    stages, params = network_numbers(model), model.initial(3)
    numbers = [len(stages), model.task == "regression", 2, 6, rules.moves, rules.levels, rules.blocks]
    numbers += [model.dim, x[0].size, len(x)]
    arrays = (
        np.array(numbers, np.int32),
        np.array([rules.step_size, model.l2], np.float32),
        stages,
        params,
        x,
        y,
        order,
        sends,
        rates,
    )
    (tmp_path / "window").write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
    done = subprocess.run([EMULATOR, str(program), str(tmp_path / "window")], check=True, capture_output=True)
    found = np.frombuffer(done.stdout, np.float32)
    wanted = Kernels(model, x, y).run(params, order, sends > 0, rates, rules, seed=3, step=7).total
    apart = ~np.isclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())
    assert apart.sum() <= (1 if rules.levels else 0)  # a draw between two roundings
