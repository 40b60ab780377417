"""What a stream becomes before it is learnt: features that every client makes online, without a look ahead.

a pipeline    Pipeline of Readings and NumberTarget or LabelTarget; suggest (for a dataset), pipeline_for (names)
readings      known (what is too large stands for none)
a simulation  featurize (a stream), begun (without first guesses)
"""

from ofediq.streams.features.apply import begun, featurize, pipeline_for, suggest
from ofediq.streams.features.labels import LabelTarget
from ofediq.streams.features.numbers import NumberTarget
from ofediq.streams.features.pipeline import BASELINES, Pipeline, PipelineMemory, checked_baseline
from ofediq.streams.features.readings import Readings, known

__all__ = [
    "BASELINES",
    "LabelTarget",
    "NumberTarget",
    "Pipeline",
    "PipelineMemory",
    "Readings",
    "begun",
    "checked_baseline",
    "featurize",
    "known",
    "pipeline_for",
    "suggest",
]
