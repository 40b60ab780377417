"""Online federated learning that counts every bit: plan, simulate, federate.

>>> import ofediq
>>> stream = ofediq.partition(ofediq.load("digits"), clients=20, steps=50, seed=0)
>>> method = ofediq.methods.ofediq(rate=0.1, levels=3, blocks=14, step_size=0.1)
>>> result = ofediq.simulate(method, stream, ofediq.models.softmax(features=64, classes=10), seed=0)
>>> bool(result.bits_wire.sum() <= result.bits_formula.sum())
True

Importing `ofediq` loads none of its rooms: each name below is looked up when it is first used, so that a small
device pays only for what it needs. A name whose extra is not installed says which one to install.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ofediq.lazy import attach

if TYPE_CHECKING:
    from ofediq import codec as codec
    from ofediq import dashboard as dashboard
    from ofediq import errors as errors
    from ofediq import experiment as experiment
    from ofediq import federation as federation
    from ofediq import methods as methods
    from ofediq import models as models
    from ofediq import report as report
    from ofediq import simulation as simulation
    from ofediq import streams as streams
    from ofediq import testing as testing
    from ofediq import theory as theory
    from ofediq import tracking as tracking
    from ofediq.federation import load_model as load_model
    from ofediq.simulation import Regret as Regret
    from ofediq.simulation import Result as Result
    from ofediq.simulation import simulate as simulate
    from ofediq.streams import Dataset as Dataset
    from ofediq.streams import Stream as Stream
    from ofediq.streams import load as load
    from ofediq.streams import load_file as load_file
    from ofediq.streams import naive_references as naive_references
    from ofediq.streams import partition as partition
    from ofediq.streams import synthetic as synthetic
    from ofediq.theory import Plan as Plan
    from ofediq.theory import plan as plan

    _names: list[str]
else:  # a type checker reads the imports above
    __getattr__, __dir__, _names = attach(
        __name__,
        {
            "codec": "codec",
            "dashboard": "dashboard",
            "errors": "errors",
            "experiment": "experiment",
            "federation": "federation load_model",
            "methods": "methods",
            "models": "models",
            "report": "report",
            "simulation": "Regret Result simulate simulation",
            "streams": "Dataset Stream load load_file naive_references partition streams synthetic",
            "testing": "testing",
            "theory": "Plan plan theory",
            "tracking": "tracking",
        },
    )

__version__ = "0.2.0"
__all__ = ["__version__", *_names]
