"""Sending the samples themselves: where privacy is no concern, a rival that every other one has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ofediq.methods.client import hold
from ofediq.methods.composition import Method
from ofediq.methods.participation import bernoulli
from ofediq.methods.presets import preset_server
from ofediq.methods.registry import named
from ofediq.methods.terms import Terms
from ofediq.methods.zoo.qsgd import QuantizeBuckets

_BUCKET = 512  # features that share a scale
_LABEL = 32


def _spend(terms: Terms, given: Mapping[str, Any]) -> dict[str, Any]:
    """The rate that pays for packed samples; where their size is not known, for some as long as the model."""
    features = terms.dim if terms.features is None else terms.features
    each = QuantizeBuckets(int(given.get("levels", 15)), _BUCKET).formula_bits(features) + _LABEL
    return {"rate": min(1.0, terms.bits_each / each)}


@named("send_samples", source="reference", spend=_spend)
def send_samples(
    levels: int = 15, rate: float = 1.0, step_size: float = 0.01, preset: str = "paper"
) -> Method:
    """Send the samples: clients send features and label, quantised, and the server learns from one after another.

    x' = Q(x), s levels of the largest feature, rounded at random, entropy-coded; the label in 32 bits. Client k sends
    with probability p. For each that arrives  w <- w - eta g(w; x', y): several steps of learning between two
    broadcasts, which no sum of gradients can do. Clients predict with the model that was broadcast, 32 D bits as in
    FedOGD. Costs at most F (1 + log2(s + 1)) + 32 bits and a scale for 512 features, whatever the model is; the
    server sees all data. It runs in the simulator, as a baseline that counts its bits: live clients send no samples.

    Args:
        levels: s.
        rate: p.
        step_size: eta, for each sample.
        preset: which rule moves the model, see `methods.presets`.
    """
    return Method(
        "Send samples",
        hold(),
        bernoulli(rate),
        QuantizeBuckets(levels, _BUCKET),
        preset_server(step_size, preset),
        1,
        "samples",
    )
