"""What a stream becomes before it is learnt: features that every client makes online, without a look ahead.

a pipeline    Pipeline of Readings and NumberTarget or LabelTarget; suggest (for a dataset), pipeline_for (names)
readings      known (what is too large stands for none)
a simulation  featurize (a stream), begun (without first guesses)
"""

from ofediq.lazy import public
from ofediq.streams.features.apply import begun as begun
from ofediq.streams.features.apply import featurize as featurize
from ofediq.streams.features.apply import pipeline_for as pipeline_for
from ofediq.streams.features.apply import suggest as suggest
from ofediq.streams.features.labels import LabelTarget as LabelTarget
from ofediq.streams.features.numbers import NumberTarget as NumberTarget
from ofediq.streams.features.pipeline import BASELINES as BASELINES
from ofediq.streams.features.pipeline import Pipeline as Pipeline
from ofediq.streams.features.pipeline import PipelineMemory as PipelineMemory
from ofediq.streams.features.pipeline import checked_baseline as checked_baseline
from ofediq.streams.features.readings import Readings as Readings
from ofediq.streams.features.readings import known as known

__all__ = public(globals())
