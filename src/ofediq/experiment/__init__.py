"""Experiments: several methods and seeds on one dataset, in a folder, to be interrupted and repeated.

config    every choice of an experiment, as one value that goes to a file and back
setup     from the choices to streams, model and methods
folder    the folder of a run: what is there, what may be overwritten
archive   finished results on disk, so that a resumed run does not compute them again
runner    run everything, keep what is done
output    write the files, make the summary
tracked   the same for an experiment tracker
frontier  the same methods at several budgets
"""

from ofediq.experiment.config import Config
from ofediq.experiment.folder import Folder, free_folder, unfinished_folder
from ofediq.experiment.frontier import frontier
from ofediq.experiment.output import write_output
from ofediq.experiment.runner import Listener, Outcome, run
from ofediq.experiment.setup import Experiment
from ofediq.experiment.tracked import track

__all__ = [
    "Config",
    "Experiment",
    "Folder",
    "Listener",
    "Outcome",
    "free_folder",
    "frontier",
    "run",
    "track",
    "unfinished_folder",
    "write_output",
]
