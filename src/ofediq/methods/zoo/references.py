"""Two references without a federation: all samples in one place, and everyone alone."""

from __future__ import annotations

from ofediq.methods.client import local_ogd
from ofediq.methods.composition import Method
from ofediq.methods.compress import identity
from ofediq.methods.participation import everyone
from ofediq.methods.presets import preset_server
from ofediq.methods.registry import named


@named("ogd", source="reference")
def ogd(step_size: float = 0.01, preset: str = "paper") -> Method:
    """Centralised reference: one learner sees every sample of every client, one after another.

    It sends no updates; its uplink is the samples themselves, 32 bits per feature and label.

    Args:
        step_size: eta.
        preset: which rule moves the model, see `methods.presets`.
    """
    rule = preset_server(step_size, preset)
    return Method("OGD", local_ogd(step_size), everyone(), identity(), rule, 1, "central")


@named("local", source="reference", memory="its own model, and nothing is sent")
def local(step_size: float = 0.01, preset: str = "paper") -> Method:
    """Reference without communication: each client learns alone from its own samples.

    Args:
        step_size: eta.
        preset: which rule moves the model, see `methods.presets`.
    """
    rule = preset_server(step_size, preset)
    return Method("Local", local_ogd(step_size), everyone(), identity(), rule, 1, "separate")
