"""The simulator: K clients, T steps, one method, fast; and the plain loop that it is checked against."""

from ofediq.simulation.comparator import Comparator, hindsight
from ofediq.simulation.engine import InterruptedRunError, simulate
from ofediq.simulation.mesh import client_mesh, join_processes
from ofediq.simulation.native import native_status
from ofediq.simulation.oracle import reference
from ofediq.simulation.regret import DynamicRegret, Regret
from ofediq.simulation.result import Result

__all__ = [
    "Comparator",
    "DynamicRegret",
    "InterruptedRunError",
    "Regret",
    "Result",
    "client_mesh",
    "hindsight",
    "join_processes",
    "native_status",
    "reference",
    "simulate",
]
