"""Experiments: several methods and seeds on one dataset, in a folder, to be interrupted and repeated.

config    every choice of an experiment, as one value that goes to a file and back
setup     from the choices to streams, model and methods
folder    the folder of a run: what is there, what may be overwritten
archive   finished results on disk, so that a resumed run does not compute them again
runner    run everything, keep what is done
output    write the files, make the summary
tracked   the same for an experiment tracker
budgets   the frontier: the same methods at several budgets
parallel  methods and seeds in processes of their own, here or on a cluster
combinations  every combination of some choices
together  one run over several processes

Names are looked up when they are first used: the command line reads the choices without loading the simulator.
"""

from typing import TYPE_CHECKING

from ofediq.lazy import attach

if TYPE_CHECKING:
    from ofediq.experiment.budgets import frontier as frontier
    from ofediq.experiment.combinations import sweep as sweep
    from ofediq.experiment.config import Config as Config
    from ofediq.experiment.folder import Folder as Folder
    from ofediq.experiment.folder import free_folder as free_folder
    from ofediq.experiment.folder import unfinished_folder as unfinished_folder
    from ofediq.experiment.listener import Listener as Listener
    from ofediq.experiment.output import write_output as write_output
    from ofediq.experiment.runner import RunOutcome as RunOutcome
    from ofediq.experiment.runner import finished as finished
    from ofediq.experiment.runner import run as run
    from ofediq.experiment.setup import Experiment as Experiment
    from ofediq.experiment.tracked import track as track
else:  # a type checker reads the imports above
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "budgets": "frontier",
            "combinations": "sweep",
            "config": "Config",
            "folder": "Folder free_folder unfinished_folder",
            "listener": "Listener",
            "output": "write_output",
            "runner": "RunOutcome finished run",
            "setup": "Experiment",
            "tracked": "track",
        },
    )
