"""The simulator: K clients, T steps, one method, fast; and the plain loop that it is checked against."""

from ofediq.lazy import public
from ofediq.simulation.comparator import Comparator as Comparator
from ofediq.simulation.comparator import hindsight as hindsight
from ofediq.simulation.engine import InterruptedRunError as InterruptedRunError
from ofediq.simulation.engine import simulate as simulate
from ofediq.simulation.meeting import join_processes as join_processes
from ofediq.simulation.mesh import client_mesh as client_mesh
from ofediq.simulation.native import native_status as native_status
from ofediq.simulation.oracle import reference as reference
from ofediq.simulation.regret import DynamicRegret as DynamicRegret
from ofediq.simulation.regret import Regret as Regret
from ofediq.simulation.result import Result as Result

__all__ = public(globals())
