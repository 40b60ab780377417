"""Every method of the catalogue, and every piece in at least one of them, keeps every contract."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ofediq import methods
from ofediq.methods import Method
from ofediq.testing import CONTRACTS, check_method

RATES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 0.05, 0.01]
QUANTIZED = methods.ofediq(RATES, levels=7, blocks=1, step_size=0.1, coding="entropy")

CASES = {
    "fedogd": methods.fedogd(0.1),
    "ofedavg": methods.ofedavg(RATES, 0.1),
    "fedomd": methods.fedomd(4, 0.1),
    "fedomd-simplex": methods.fedomd(100, 0.02, mirror="simplex"),
    "ofediq": methods.ofediq(0.5, levels=3, blocks=14, step_size=0.1),
    "ofediq-authors": methods.ofediq(0.5, levels=3, blocks=14, period=3, preset="authors"),
    "ofediq-coin-delta": methods.with_broadcast(
        methods.with_server(QUANTIZED, methods.coin()), methods.delta(7, 14, refresh=2)
    ),
    "ofedgrid": methods.ofedgrid(bits_per_step=1e4, steps=300),
    "ofedduplex": methods.make(
        "ofedduplex(bytes_per_step=6000, dim=650, clients=12, steps=300, step_size=0.1)"
    ),
    "ofedduplex-walking": methods.make(
        "ofedduplex(bytes_per_step=200, dim=650, clients=12, steps=300, step_size=0.01, preset=authors)"
    ),
    "ef21_sgdm": methods.make("ef21_sgdm(keep=20, rate=0.5, step_size=0.1)"),
    "diana": methods.make("diana(rate=0.5, levels=3, step_size=0.1)"),
    "cafe": methods.make("cafe(keep=20, rate=0.5, step_size=0.1)"),
    "majority_vote": methods.make("majority_vote(rate=0.5, step_size=0.01)"),
    "ofediq_norm": methods.ofediq_norm(3, 14, bits_per_step=1e4, steps=300),
    "scaffold": methods.make("scaffold(period=4, rate=0.6, step_size=0.1)"),
    "topk_ef": methods.make("topk_ef(keep=20, rate=0.5, step_size=0.1)"),
    "secure": methods.make("secure(keep=200, senders=4, groups=3, least=2, step_size=0.1)"),
    "private": methods.make("private(keep=200, senders=12, least=4, step_size=0.1)"),
    "fedsgd": methods.make("fedsgd(step_size=0.1)"),
    "fedavg": methods.make("fedavg(period=4, rate=0.6, step_size=0.1)"),
    "fedprox": methods.make("fedprox(period=4, rate=0.6, step_size=0.1)"),
    "fednova": methods.make("fednova(period=4, rate=0.6, step_size=0.1)"),
    "fedpaq": methods.make("fedpaq(period=4, rate=0.6, step_size=0.1)"),
    "fedomd_local": methods.make("fedomd_local(period=4, step_size=0.1)"),
    "fedomd_local-dual": methods.make("fedomd_local(period=3, step_size=0.02, mirror=simplex, average=dual)"),
    "fedpoe": methods.make("fedpoe(scaffold(period=4, rate=0.6), mixing=adaptive)", step_size=0.1),
    "psofed": methods.make("psofed(keep=60, rate=0.6, step_size=0.1)"),
    "psofed-shifted": methods.make("psofed(keep=60, rate=0.6, step_size=0.1, masks=shifted)"),
    "qsgd": methods.make("qsgd(rate=0.6, step_size=0.1)"),
    "uveqfed": methods.make("uveqfed(period=2, rate=0.6, step_size=0.1)"),
    "uveqfed-scalar": methods.make("uveqfed(bits=3, lattice=scalar, step_size=0.1)"),
    "fedvqcs": methods.make("fedvqcs(period=2, rate=0.6, step_size=0.1)"),
    "vrlsgd": methods.make("vrlsgd(period=4, step_size=0.1)"),
    "laq": methods.make("laq(step_size=0.1)"),
    "lasg": methods.make("lasg(period=2, step_size=0.1)"),
    "emkofl": methods.make("emkofl(kernels=5, rate=0.6, step_size=0.1)"),
    "pofmkl": methods.make("pofmkl(kernels=5, rate=0.6, step_size=0.1)"),
    "eden": methods.make("eden(bits=0.2, rate=0.5, step_size=0.1)"),
    "eden-bits": methods.make("eden(bits=2, step_size=0.1)"),
    "ocs": methods.make("ocs(bits_per_step=1e4, steps=300, blocks=14)"),
    "ocs-eden": methods.make("ocs(bits_per_step=1e4, steps=300, codec=eden)"),
    "intsgd": methods.make("intsgd(step_size=0.1)"),
    "ftrl_ef": methods.make("ftrl_ef(keep=20, rate=0.5, step_size=0.1, radius=2.0)"),
    "seeds_scalars": methods.make("seeds_scalars(keep=40, rate=0.5, step_size=0.1)"),
    "send_samples": methods.make("send_samples(rate=0.5, step_size=0.05)"),
    "ogd": methods.ogd(0.1),
    "local": methods.local(0.1),
}


@pytest.mark.parametrize("key", CASES)
def test_keeps_every_contract(key: str) -> None:
    report = check_method(CASES[key])
    skipped = {one.contract for one in report.findings if one.verdict == "skipped"}
    expected = {name for name in CONTRACTS if name.startswith("memory:")}
    remembers = (
        key != "ofedduplex" and methods.entry(key.split("-")[0]).memory
    )  # its clients do where they walk
    if remembers and CASES[key].topology == "federated":
        expected = set()
    if CASES[key].topology != "federated":  # references have no broadcast, no plain loop and no senders
        expected |= {"broadcast: send = encode", "run: engine = plain loop", "run: chunks and meshes"}
    assert skipped == expected


def test_every_name_of_the_catalogue_is_among_them() -> None:
    assert {key.split("-")[0] for key in CASES} >= {
        name for name, one in methods.entries().items() if one.build.__module__.startswith("ofediq.")
    }


@pytest.mark.parametrize(
    "method",
    [
        replace(methods.ofedavg(0.5), compress=methods.rotate(1)),
        methods.ofediq(0.01, levels=1, blocks=650),
        methods.ofediq(1.0, levels=2**15, blocks=1),
        methods.ofedavg(0.3, preset="authors"),
        methods.fedomd(2, mirror="positive"),
    ],
    ids=lambda method: f"{method.name}, {method.compress!r}",
)
def test_pieces_alone(method: Method) -> None:
    pieces = [name for name in CONTRACTS if not name.startswith("run:")]
    assert check_method(method, contracts=pieces).ok


def test_a_compressor_may_be_biased_if_it_says_so() -> None:
    nearest = replace(methods.ofedavg(0.5), compress=methods.rotate(1, "nearest"))
    report = check_method(nearest, contracts=["compress: unbiased", "compress: bits = bytes"])
    assert report.findings[0].sentence == "declared biased: `compress.unbiased` is False."
