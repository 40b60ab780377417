"""`check_method`: all contracts, one after another."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ofediq.errors import require_choice, require_integer, require_kind
from ofediq.methods import Method
from ofediq.models import Model
from ofediq.streams import Stream
from ofediq.testing import compressors, identity, memory, rules, runs, senders
from ofediq.testing.case import Case
from ofediq.testing.compare import BrokenError, SkipError, first_sentence
from ofediq.testing.findings import Finding, Findings

CONTRACTS: dict[str, Callable[[Case], str]] = {
    "pieces: frozen": identity.pieces_are_frozen,
    "describe: JSON": identity.describe_is_json,
    "client: row by row": rules.client_is_rowwise,
    "participation: rates": senders.rates_are_probabilities,
    "participation: rates match draws": senders.rates_match_draws,
    "participation: addressed draws": senders.draws_are_addressed,
    "participation: NumPy = JAX": senders.same_in_jax,
    "compress: unbiased": compressors.unbiased,
    "compress: apply = encode": compressors.apply_equals_encode,
    "compress: bits = bytes": compressors.bits_are_bytes,
    "compress: bits <= formula": compressors.bits_below_formula,
    "compress: addressed draws": compressors.draws_are_addressed,
    "compress: NumPy = JAX": compressors.same_in_jax,
    "compress: zeros and extremes": compressors.survives_extremes,
    "server: no hidden state": rules.server_is_pure,
    "server: NumPy = JAX": rules.server_works_in_jax,
    "server: zeros and extremes": rules.server_survives_extremes,
    "broadcast: send = encode": rules.broadcast_agrees,
    "memory: row by row": memory.memory_is_rowwise,
    "memory: lost updates": memory.lost_updates_leave_it_right,
    "memory: lost memory": memory.lost_memory_starts_clean,
    "run: engine = plain loop": runs.engine_equals_reference,
    "run: absent clients": runs.absent_clients_count_for_nothing,
    "run: resumed = uninterrupted": runs.resumed_equals_uninterrupted,
    "run: chunks and meshes": memory.chunks_and_meshes_agree,
}
"""Every contract by its name; the docstring of each says what is promised."""


def check_method(
    method: Method,
    stream: Stream | None = None,
    model: Model | None = None,
    *,
    contracts: Collection[str] | None = None,
    seed: int = 0,
    strict: bool = True,
) -> Findings:
    """Check that `method` keeps every rule that simulator, plain loop and federation rely on.

    Write a piece, compose it, and put `check_method(mine)` into a test. It takes a few seconds and is deterministic.
    A compressor that is biased on purpose says so with an attribute `unbiased = False`.

    Args:
        method: what to check.
        stream: a small one to run on, with more than 64 steps; by default a dozen clients that share digits, some of
            them absent at times.
        model: for that stream; by default softmax regression with 650 parameters. Give both, or neither.
        contracts: names from `CONTRACTS`, to check only these.
        seed: of the runs.
        strict: raise `ContractError` when a contract is broken; with False only the report tells.

    Returns:
        The report: `print(report)` lists every contract with how it was checked.

    >>> from ofediq import methods
    >>> print(check_method(methods.ofedavg(rate=0.3), contracts=["participation: rates", "compress: bits = bytes"]))
    OFedAvg: 2 contracts kept, 0 broken, 0 skipped
      kept     participation: rates    12 clients.
      kept     compress: bits = bytes  11 messages, exactly.
    """
    require_kind(Method, "method", method)
    require_integer("seed", seed, 0, 2**32 - 1)
    case = Case.prepare(method, stream, model, seed)
    chosen = [require_choice("contracts", name, tuple(CONTRACTS)) for name in contracts or CONTRACTS]
    findings = tuple(_judge(name, CONTRACTS[name], case) for name in chosen)
    report = Findings(method.name, findings)
    if strict:
        report.raise_if_broken()
    return report


def _judge(name: str, contract: Callable[[Case], str], case: Case) -> Finding:
    try:
        return Finding(name, "kept", contract(case))
    except SkipError as reason:
        return Finding(name, "skipped", str(reason))
    except BrokenError as failure:
        return Finding(name, "broken", str(failure))
    except Exception as error:  # a piece that raises is the piece's fault, whatever it raises
        return Finding(name, "broken", f"it raises {first_sentence(error)}")
