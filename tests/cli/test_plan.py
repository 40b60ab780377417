import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ofediq.cli.app import app
from ofediq.errors import DataError, InputError
from ofediq.theory import fitted_rates, plan


def output(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["plan", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def as_json(*arguments: str) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(output(*arguments, "--json"))
    return plain


def test_the_table_shows_parameters_and_guarantees() -> None:
    shown = " ".join(output("--budget", "0.1", "--dim", "34826", "--method", "paper").split())
    for fact in ("rate p 0.5151", "levels s 17", "blocks b 1,134", "period L 1"):
        assert fact in shown
    everything = 32 * 1000 * 34826
    assert "this plan 4.5362" in shown
    assert f"OFedAvg, same budget 20 {everything / 10:,.0f} 90.00%" in shown
    assert f"FedOGD 2 {everything:,} 0.00%" in shown


def test_notes_are_shown() -> None:
    shown = " ".join(output("--budget", "0.5", "--dim", "34826", "--method", "paper").split())
    assert "Note: Algorithm 3 asks for a rate of 1.895" in shown


def test_json_has_the_promised_keys() -> None:
    plain = as_json("--budget", "0.01", "--dim", "34826", "--method", "paper")
    promised = {"rate", "levels", "blocks", "period", "regret_constant", "bits_per_step", "ccr", "method"}
    assert promised <= set(plain)
    assert (plain["levels"], plain["blocks"], plain["period"], plain["method"]) == (3, 777, 1, "paper")
    assert plain["ccr"] == pytest.approx(0.99, abs=1e-6)


def test_json_is_the_plan_of_the_library() -> None:
    assert as_json("--budget", "0.1", "--dim", "5889", "--clients", "50") == plan(0.1, 5889, 50).to_dict()


def test_a_file_of_capacities_gives_a_rate_per_client(tmp_path: Path) -> None:
    file = tmp_path / "uplinks.csv"
    file.write_text("1, 2\n4\n", encoding="utf-8")
    arguments = ("--budget", "0.01", "--dim", "34826", "--capacities", str(file))
    assert as_json(*arguments)["rate"] == list(plan(0.01, 34826, capacities=[1, 2, 4]).to_dict()["rate"])
    assert "3 clients" in output(*arguments)


@pytest.mark.parametrize("content", [None, b"1,two", b"\xff\xfe"])
def test_a_bad_file_of_capacities_is_one_sentence(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "uplinks.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DataError, match=r"^`capacities` must .*, got '.*uplinks.csv' \("):
        output("--budget", "0.01", "--dim", "10", "--capacities", str(file))


def test_the_help_has_examples() -> None:
    assert "ofediq plan --budget 0.01 --dim 34826" in output("--help")


def test_measured_plans_from_samples_and_assumptions(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).standard_normal((3, 500)) ** 3
    np.save(tmp_path / "updates.npy", samples)
    arguments = ("--budget", "0.01", "--dim", "500", "--method", "measured")
    fitted = as_json(*arguments, "--updates", str(tmp_path / "updates.npy"))
    assert fitted == plan(0.01, 500, method="measured", rates=fitted_rates(samples)).to_dict()
    assumed = as_json(*arguments, "--assume", "laplace")
    assert "Laplace" in assumed["notes"][0]
    assert "Gaussian" in " ".join(output(*arguments).split())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--updates", "{folder}/none.npy"), "`updates` must be a readable .npy file"),
        (("--updates", "{folder}/begun.npz"), "`updates` must be a readable .npy file"),
        (("--updates", "{folder}/text.csv"), r"text.csv' \(it is not a file of numpy"),
        (("--updates", "{folder}/objects.npy"), r"objects.npy' \(it holds Python objects"),
        (("--updates", "{folder}/short.npy"), "`updates` must have 500 coordinates each"),
        (("--updates", "{folder}/short.npy", "--assume", "laplace"), "`assume` must not be given"),
        (("--assume", "laplace", "--method", "exact"), "`rates` must be given with method 'measured' only"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
    np.save(tmp_path / "short.npy", np.ones((2, 3)))
    np.save(tmp_path / "objects.npy", np.array([{}]))
    (tmp_path / "begun.npz").write_bytes(b"PK\x03\x04" + bytes(300))
    (tmp_path / "text.csv").write_text("a,b\n1,2\n")
    words = [word.format(folder=tmp_path) for word in arguments]
    command = ["plan", "--budget", "0.01", "--dim", "500", "--method", "measured", *words]
    with pytest.raises(InputError, match=reason):
        CliRunner().invoke(app, command, catch_exceptions=False)


def test_contracts_of_every_size_are_shown_in_digits_that_count() -> None:
    shown = " ".join(output("--bytes-per-hour", "1", "--dim", "34826", "--clients", "1").split())
    assert "parameters and 1 client " in shown
    assert "0.0167 per client and step" in shown  # a sixtieth
    assert " days" in shown
    steps = as_json("--bytes-per-hour", "2000", "--dim", "24", "--clients", "5")["period"]
    shown = " ".join(output("--bytes-per-hour", "2000", "--dim", "24", "--clients", "5").split())
    assert f"{steps:.3g} steps on average, {steps:.3g} minutes" in shown
