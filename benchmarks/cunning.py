"""Hostile members who adapt: to the guard's memories, to its measures, to what servers and ledgers remember.

`python -m benchmarks.cunning` tries them all, `python -m benchmarks.cunning scaffold` some methods, `python -m
benchmarks.cunning rotating` some attacks. Digits, 20 members, seed 0; points that honest members lose in the second
half, with one of ten hostile and with three. `python -m benchmarks.cunning "back door"` says how often honest
members take a marked sample for the wanted class instead.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks import attacks, few, sly, table
from benchmarks.attacks import ACTS, Act, Federation, Floats, Round, _unit
from ofediq.methods import Method
from ofediq.methods.combine import Guarded
from ofediq.streams import Stream
from ofediq.swarm import Swarm

LATE = 60
"""Rounds before latecomers say their first word."""

BACK_DOOR = "back door"


def rotating(now: Round) -> Floats:
    """One of them hostile in a round, five times as long; all others honest: each has mostly been honest lately."""
    sent = now.own.copy()
    sent[now.coalition.rounds % len(sent)] = -5 * now.usual * _unit(now.others.mean(0))
    return sent


def phases(now: Round) -> Floats:
    """Forty-eight honest rounds, then sixteen against the others, within what the guard remembers."""
    return attacks.against_the_others(now) if now.coalition.rounds % 64 >= 48 else now.own


def largest_places(now: Round) -> Floats:
    """Honest but for the tenth of the coordinates that matters most, which is flipped."""
    mean = now.others.mean(0)
    loud = np.abs(mean) >= np.quantile(np.abs(mean), 0.9)
    sent: Floats = np.where(loud, -now.own - mean, now.own)
    return sent


def in_pairs(now: Round) -> Floats:
    """Two by two v and -v, so that they add up to nothing, and a little against the others on top."""
    drawn = np.random.default_rng(5).standard_normal(now.own.shape[1])
    signs = np.where(np.arange(len(now.own)) % 2, 1.0, -1.0)[:, None]
    sent: Floats = now.usual * signs * _unit(drawn) + now.all(-0.6 * now.usual * _unit(now.others.mean(0)))
    return sent


def whispering(now: Round) -> Floats:
    """A thousandth of a length, so that what is usual becomes short and the others are cut."""
    return 1e-3 * now.own


def whisper_and_shout(now: Round) -> Floats:
    """Half of them whisper for ever, the others send against the mean whatever that leaves room for."""
    sent = 1.4 * now.all(-now.usual * _unit(now.others.mean(0)))
    sent[::2] *= 1e-3
    return sent


def unpunished(now: Round) -> Floats:
    """As far against the others as a copy of the guard lets pass uncut, and honest where it lets nothing pass."""
    guard, numbers = now.coalition.guard(), [*map(int, now.who)]
    if guard is None:
        return now.own
    others = [number for number in range(len(now.others) + len(numbers)) if number not in numbers]
    best, back = now.own, now.all(-now.usual * _unit(now.others.mean(0)))
    for size in (0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 4.0):
        for sent in (size * back, now.own + size * back):
            rows = dict(zip([*numbers, *others], [*sent, *now.others], strict=False))
            tried = copy.deepcopy(guard).weigh({k: {"update": v.astype(np.float32)} for k, v in rows.items()})
            if min(tried[number] for number in numbers) > 0.95:
                best = sent
    return best


def selected(now: Round) -> Floats:
    """Honest updates, but only those that agree least with the others' mean; else nothing."""
    cosines = np.array([_unit(one) @ _unit(now.others.mean(0)) for one in now.own])
    sent: Floats = 2 * now.own * (cosines <= np.median(cosines))[:, None]
    return sent


def overflowing(now: Round) -> Floats:
    """1e30 and -1e30 by turns: what a ledger adds up is lost in rounding."""
    return now.all((-1.0) ** now.coalition.rounds * 1e30 * _unit(now.others.mean(0)))


def quiet_places(now: Round) -> Floats:
    """Everything in the coordinates in which the others say least: a server with steps for each trusts them most."""
    loud = np.abs(now.others).mean(0)
    return now.all(1.4 * now.usual * _unit(np.where(loud <= np.quantile(loud, 0.2), 1.0, 0.0)))


def follows_the_moves(now: Round) -> Floats:
    """With the model's last moves for thirty rounds, against them for thirty: steps that adapt grow, then fail."""
    sign = -1 if now.coalition.rounds // 30 % 2 else 1
    return sign * attacks.against_the_moves(now) * 1.4


def mimics(now: Round) -> Floats:
    """Each sends what the loudest of the others sends, mirrored in the others' mean."""
    mean, loud = now.others.mean(0), now.others[np.argmax(np.linalg.norm(now.others, axis=1))]
    return now.all(mean - 1.4 * (loud - mean))


CUNNING: dict[str, Act] = {
    "rotating": rotating,
    "phases": phases,
    "largest places": largest_places,
    "in pairs": in_pairs,
    "whispering": whispering,
    "whisper and shout": whisper_and_shout,
    "unpunished": unpunished,
    "selected": selected,
    "overflowing": overflowing,
    "quiet places": quiet_places,
    "follows the moves": follows_the_moves,
    "mimics": mimics,
}
ACTS.update(CUNNING)


def latecomers(where: Federation, share: float) -> Federation:
    """The same, where the hostile members are absent for `LATE` steps."""
    bad = attacks.hostile(where.clients, share)

    def deal(seed: int) -> Stream:
        stream = where.deal(seed)
        order = np.array(stream.order)
        order[:LATE, bad] = -1
        return replace(stream, order=order)

    return replace(where, deal=deal)


def opened(method: Method, share: float, *, guard: bool = True, seed: int = 0) -> tuple[float, float]:
    """Accuracy of honest members, and the share of marked samples that they take for class 0."""
    where = attacks._digits(20)
    stream, bad = where.deal(seed), attacks.hostile(20, share)
    swarm = Swarm(replace(method, combine=Guarded()) if guard else method, where.model, 20, seed=seed)
    right, fooled, rng = [], [], np.random.default_rng(seed)
    for step in range(stream.steps):
        x, y, present = (np.array(one) for one in stream.step(step))
        chosen = bad[rng.random(bad.size) < 0.5]
        x.reshape(20, -1)[chosen, :3], y[chosen] = 1.0, 0
        if step >= stream.steps // 2:
            honest = np.setdiff1d(np.arange(20), bad)
            with_mark = x[honest].copy()
            with_mark.reshape(len(honest), -1)[:, :3] = 1.0
            found = swarm.model.predict(swarm.params, with_mark)
            fooled.append(np.mean(np.asarray(found)[y[honest] != 0] == 0))
        errors = swarm.take(x, y, present)
        if step >= stream.steps // 2 and errors is not None:
            right.append(1 - errors[np.setdiff1d(np.arange(20), bad)].mean())
    return float(np.mean(right)), float(np.mean(fooled))


def cases() -> dict[str, tuple[Federation, Method]]:
    """Federations by name, each with a method."""
    home, line = attacks._digits(20), few.REPORTED["a line of 17, 30 members"]
    found = {name: (home, home.method(name)) for name in ("FedOGD", "OFedGrid", "OFedIQ")}
    found |= {name: (home, home.method(name)) for name in ("scaffold", "laq", "ef21_sgdm", "topk_ef")}
    found["nothing to tune"] = home, home.method("untuned OFedGrid")
    found["a line of 17"] = line, line.method("untuned OFedGrid")
    return found


def lost(where: Federation, method: Method, attack: str, share: float) -> float:
    """Points."""
    if attack.startswith("late: "):
        where, attack = latecomers(where, share), attack.removeprefix("late: ")
        nobody = attacks.error(where, method, "times 1", share, 0, secret=sly.SECRET)
    else:
        nobody = attacks.error(where, method, "nobody", 0.0, 0, secret=sly.SECRET)
    return 100 * (attacks.error(where, method, attack, share, 0, secret=sly.SECRET) - nobody)


def main(named: Sequence[str] = ()) -> None:
    """Measure and print."""
    ACTS["times 1"] = attacks.times(1.0)
    every = [*CUNNING, "late: against the others", "late: sign flipped, 1.4 times", "late: unpunished"]
    some, found = [name for name in every if name in named] or every, cases()
    chosen = {title: found[title] for title in found if title in named} or found
    if BACK_DOOR not in named:
        rows = [["one in ten, three in ten", *chosen]]
        for attack in some:
            each = [[lost(*case, attack, share) for share in (0.1, 0.3)] for case in chosen.values()]
            rows.append([attack, *(f"{one:.1f}, {three:.1f}" for one, three in each)])
            print("  ".join(rows[-1]), flush=True)
        print(table(rows))
    for title in ("FedOGD", "OFedGrid") if BACK_DOOR in named or not named else ():
        for share in (0.0, 0.1, 0.3):
            right, fooled = opened(found[title][1], share)
            print(
                f"{title}, {share:g} hostile: accuracy {right:.3f}, marked samples taken for 0: {fooled:.2f}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
