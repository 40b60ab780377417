"""Updates that are valid and not to be trusted: too long, or against all others; the model stays finite."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq import methods
from ofediq.codec import Raw, pack_frame
from ofediq.federation import Rules, clock, coordinate
from ofediq.federation.protocol.coordinator import Coordinator
from ofediq.federation.protocol.messages import UpdateMessage, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.methods.robust.balance import balanced
from ofediq.methods.robust.guard import BURST, CLIP, FIRST, RATE, START, Guard
from ofediq.methods.robust.votes import trusted
from ofediq.randomness import Address
from tests.federation.network import FEDERATION
from tests.federation.test_core import CLIENTS, SPEC, coordinator


def send(server: Coordinator, sizes: list[float]) -> None:
    """One round of raw updates, all in the first coordinate."""
    step = server.step + 1
    for number, size in enumerate(sizes):
        vector = np.zeros(650, np.float32)
        vector[0] = size
        body = pack_frame(Raw().encode(vector, Address(0, step, number)), step)
        server.receive(f"{FEDERATION}/u/c{number}", UpdateMessage(Report(), step, body).encode(), 0.0)


def started(clip: float | None) -> Coordinator:
    server = coordinator(methods.fedogd(1.0), clip=clip)
    server.connected(0.0)
    for number in range(CLIENTS):
        server.receive(f"{FEDERATION}/here/c{number}", write_json(online=True), 0.0)
    return server


@pytest.mark.parametrize("size", [1e18, 3.4e38])
def test_one_huge_update_in_the_first_round_is_cut_to_what_a_member_has_saved(size: float) -> None:
    server = started(clip=CLIP)
    send(server, [size] + [1.0] * (CLIENTS - 1))
    assert server.monitor.totals()["clipped"] == 1
    np.testing.assert_allclose(server.params[0], -(FIRST + RATE + CLIENTS - 1) / CLIENTS, rtol=1e-5)


def test_what_the_guard_leaves_out_has_arrived_and_is_counted_as_sent() -> None:
    server = started(clip=CLIP)
    for _ in range(20):
        send(server, [-1.0] + [1.0] * (CLIENTS - 1))
    totals = server.monitor.totals()
    assert totals["left_out"] > 0
    assert totals["updates"] + totals["left_out"] == 20 * CLIENTS
    assert totals["missed"] == 0
    assert totals["bits_wire"] == totals["bits_formula"] == 20 * CLIENTS * 32 * 650


def one_round(guard: Guard, lengths: list[float]) -> list[float]:
    updates = {number: {"update": np.array([size], np.float32)} for number, size in enumerate(lengths)}
    return list(guard.weigh(updates).values())


@given(st.lists(st.floats(0, 1e30), min_size=1, max_size=5), st.floats(1.5, 1e4))
def test_the_limit_is_known_before_the_round(lengths: list[float], clip: float) -> None:
    guard = Guard(clip)
    for _ in range(4):
        usual = guard.usual() or START
        kept = [size * factor for size, factor in zip(lengths, one_round(guard, lengths), strict=True)]
        assert all(size <= min(BURST, clip) * usual * (1 + 1e-5) for size in kept)
        assert guard.usual() <= max(START, BURST * usual) * (1 + 1e-6)


def test_a_scale_far_from_the_start_value_is_found() -> None:
    guard = Guard()
    for _ in range(60):
        factors = one_round(guard, [1e9] * 3)
    assert factors == [1.0] * 3


def test_a_member_may_send_a_long_update_now_and_then_but_not_always() -> None:
    guard, rng = Guard(), np.random.default_rng(0)
    sums = {"sometimes": 0.0, "always": 0.0}
    for number in range(200):
        lengths = list(rng.uniform(0.9, 1.1, 8))
        lengths[0] = 4.0 if number % 16 == 15 else 0.7
        lengths[1] = 4.0
        factors = one_round(guard, lengths)
        sums["sometimes"] += factors[0] * lengths[0] / (4 / 16 + 0.7 * 15 / 16) / 200
        sums["always"] += factors[1] * lengths[1] / 200
    assert sums["sometimes"] > 0.97
    assert sums["always"] < RATE * 1.15


def test_where_members_decide_and_all_send_nobody_has_more_room_than_where_they_are_told_to() -> None:
    """Long updates there and back: what they say adds up to nothing, and only their lengths give them away."""
    guard, rng, kept, rounds, size = Guard(regular=False), np.random.default_rng(0), 0.0, 100, 4.0
    for number in range(rounds):
        vectors = rng.standard_normal((10, 64)) + 0.5 * np.eye(1, 64)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors[0] = (-1) ** number * size * np.eye(1, 64, 63)[0]
        kept += size * guard.weigh({k: {"update": v.astype(np.float32)} for k, v in enumerate(vectors)})[0]
        guard.closed(10, 10)
    assert kept <= RATE * rounds + FIRST


def test_who_always_sends_too_much_is_quarantined_until_it_is_let_back() -> None:
    server = started(clip=CLIP)
    for _ in range(20):
        send(server, [-1e4] + [1.0] * (CLIENTS - 1))
    assert [row.name for row in server.monitor.rows() if row.quarantined] == ["c0"]
    assert server.monitor.rejected["quarantined"] > 0
    before, after = server.params[0], coordinator(methods.fedogd(1.0), clip=CLIP, saved=server.saved())
    assert after.tally.guard.quarantined == {0}
    assert server.tally.admit("c0")
    assert not server.tally.admit("nobody")
    send(server, [1.0] * CLIENTS)
    np.testing.assert_allclose(server.params[0], before - 1.0, rtol=1e-5)


def test_a_jump_of_everybodys_scale_quarantines_nobody() -> None:
    guard = Guard()
    for size in [1.0] * 30 + [1e6] * 60 + [1e-6] * 60:
        factors = one_round(guard, [size] * 10)
    assert factors == [1.0] * 10
    assert not guard.quarantined


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize("harm", [-990.0, 1000.0, -1.0, -1.4])
def test_members_that_send_their_updates_times_a_number_do_little(harm: float, share: float) -> None:
    """Directions agree in part, as gradients do; the others' sum must get through, whatever some send."""
    rng, guard, members = np.random.default_rng(1), Guard(), 20
    bad, common = round(share * members), np.full(64, 1 / 8, np.float32)
    got = np.zeros(64)
    for step in range(60):
        own = 0.5 * common + rng.standard_normal((members, 64)).astype(np.float32) / 8
        own[:bad] *= harm
        updates = {number: {"update": row} for number, row in enumerate(own)}
        factors = np.array(list(guard.weigh(updates).values()))
        got += factors @ own if step >= 20 else 0.0
    kept = float(got @ common) / 40 / members
    assert kept > 0.5 * (1 - share) * 0.8
    assert set(range(bad)) >= guard.quarantined


@pytest.mark.parametrize("frequency", [1.0, 0.3])
@pytest.mark.parametrize("harm", ["one way", "slowly", "back"])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_members_who_agree_on_a_direction_move_little(harm: str, share: float, frequency: float) -> None:
    """Each update is of usual length; what they want is away from the others, for ever."""
    rng, guard, members, size = np.random.default_rng(4), Guard(), 20, 256
    bad, common = round(share * members), np.full(size, 1 / 16, np.float32)
    aim = rng.standard_normal(size).astype(np.float32)
    aim = -common if harm == "back" else aim / np.linalg.norm(aim)
    unguarded, pushed, kept = 0.0, 0.0, []
    for step in range(200):
        own = 0.3 * common + rng.standard_normal((members, size)).astype(np.float32) / 16
        own[:bad] = (own[:bad] if harm == "slowly" else 0.0) + aim * (
            min(1.0, step / 100) if harm == "slowly" else 1.4
        )
        sends = np.flatnonzero(rng.random(members) < frequency)
        factors = guard.weigh({int(number): {"update": own[number]} for number in sends})
        hostile, honest = sends[sends < bad], sends[sends >= bad]
        unguarded += float((own[hostile] @ aim).sum())
        pushed += float(sum(factors[number] * own[number] @ aim for number in hostile))
        kept += [factors[number] for number in honest]
    assert pushed < 0.35 * unguarded
    assert np.mean(kept) > 0.93
    assert not guard.quarantined


def of_other_data(rng: np.random.Generator, members: int, size: int = 256) -> Any:
    """Updates whose means differ far more than they agree: a fifth of what each wants is common."""
    kinds = rng.standard_normal((members, size)) / np.sqrt(size)
    return 0.2 / np.sqrt(size) + kinds - kinds.mean(0)


@pytest.mark.parametrize("harm", ["against the others", "one way", "against the moves"])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_members_who_agree_do_little_among_members_of_other_data(harm: str, share: float) -> None:
    """No update looks odd there: what tells is that the model would follow few, or harm most."""
    rng, guard, members, size = np.random.default_rng(8), Guard(), 20, 256
    bad, common = round(share * members), np.full(size, 1 / 16, np.float32)
    means, aim = of_other_data(rng, members, size), rng.standard_normal(size) / 16
    gained, wanted, moved = np.zeros(size), 0.0, np.zeros(size)
    for step in range(200):
        own = means + rng.standard_normal((members, size)) / 16
        others = own[bad:].mean(0)
        target = {"against the others": -others, "one way": aim, "against the moves": -moved}[harm]
        own[:bad] = 1.4 * 1.4 * target / max(float(np.linalg.norm(target)), 1e-9)
        updates = {number: {"update": row.astype(np.float32)} for number, row in enumerate(own)}
        total = np.array(list(guard.weigh(updates).values())) @ own
        moved = 0.9 * moved + total
        if step >= 50:
            gained, wanted = gained + total, wanted + float(own[bad:].sum(0) @ common)
    assert gained @ common > 0.7 * wanted
    assert np.linalg.norm(gained) < 2 * wanted
    assert not guard.quarantined


def test_honest_members_of_other_data_count() -> None:
    rng, guard, kept = np.random.default_rng(9), Guard(), []
    means = of_other_data(rng, 20)
    for _ in range(150):
        own = (means + rng.standard_normal(means.shape) / 16).astype(np.float32)
        kept += list(guard.weigh({number: {"update": row} for number, row in enumerate(own)}).values())
    assert np.mean(kept) > 0.97


def test_a_guard_of_many_members_keeps_less_of_each() -> None:
    guard, rng = Guard(), np.random.default_rng(10)
    Guard().grow(1000)
    for members in (100, 300, 5000):
        guard.grow(members)
        own = rng.standard_normal((members, 700)).astype(np.float32) + 0.1
        factors = guard.weigh({number: {"update": row} for number, row in enumerate(own)})
        assert guard.export()["wish"].nbytes <= max(128 * 1024, 128 * members)
    again = Guard()
    again.restore({name: one for name, one in guard.export().items() if name not in ("room", "usual")})
    again.restore({"of an earlier version": np.zeros(3)})
    again.restore({f"{table}/update": guard.export()[table]["update"] for table in ("room", "usual")})
    updates = {number: {"update": row} for number, row in enumerate(own)}
    assert again.weigh(updates) == guard.weigh(updates)
    assert np.mean(list(factors.values())) > 0.5


def test_honest_members_of_other_scales_are_not_quarantined() -> None:
    rng, guard = np.random.default_rng(5), Guard()
    scales = np.exp(rng.standard_normal(20)).astype(np.float32)[:, None]
    for _ in range(200):
        own = scales * (0.5 + rng.standard_normal((20, 64)).astype(np.float32)) / 8
        guard.weigh({number: {"update": row} for number, row in enumerate(own)})
    assert not guard.quarantined


@pytest.mark.parametrize("frequency", [1.0, 0.2])
@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_few_members_learn_as_without_a_guard(members: int, frequency: float) -> None:
    """Nobody knows what is usual among so few, or in rounds of one update."""
    rng, guard, kept = np.random.default_rng(6), Guard(), []
    for step in range(120):
        own = 0.3 * np.exp(-step / 60) * (0.3 + rng.standard_normal((members, 16))).astype(np.float32)
        sends = np.flatnonzero(rng.random(members) < frequency)
        factors = guard.weigh({int(number): {"update": own[number]} for number in sends})
        kept += list(factors.values()) if step >= 20 else []
    assert np.mean(kept) > 0.95
    assert not guard.quarantined


def test_after_a_long_silence_of_all_updates_the_first_ones_count() -> None:
    guard = Guard()
    for size in [0.0] * 50 + [1.0] * 60:
        factors = one_round(guard, [size] * 6)
    assert factors == [1.0] * 6


def test_members_of_two_kinds_are_left_alone() -> None:
    """Honest members that disagree by halves are nobody's enemies."""
    rng, guard = np.random.default_rng(2), Guard()
    common = np.full(64, 1 / 8, np.float32)
    for _ in range(60):
        own = rng.standard_normal((20, 64)).astype(np.float32) / 8
        own[::2] += 0.5 * common
        own[1::2] -= 0.5 * common
        factors = guard.weigh({number: {"update": row} for number, row in enumerate(own)})
    assert not guard.quarantined
    assert min(factors.values()) > 0


def test_a_minority_of_another_kind_is_not_quarantined() -> None:
    """Their updates may not count while they oppose the others, and count again as soon as they do not."""
    rng, guard = np.random.default_rng(3), Guard()
    common = np.full(64, 1 / 8, np.float32)
    for step in range(400):
        own = rng.standard_normal((12, 64)).astype(np.float32) / 8 + common
        own[:2] -= 2 * common * (step < 200)
        factors = guard.weigh({number: {"update": row} for number, row in enumerate(own)})
    assert not guard.quarantined
    assert min(factors.values()) > 0


def test_every_part_of_a_message_is_bounded() -> None:
    """FedNova's number of steps multiplies everything: it is a part of its own."""
    guard = Guard()
    for _ in range(10):
        parts = {n: {"update": np.ones(4, np.float32), "steps": np.full(1, 8, np.float32)} for n in range(8)}
        parts[0]["steps"] = np.full(1, 1e30, np.float32)
        factors = guard.weigh(parts)
    assert factors[0] == 0.0
    assert factors[1] == 1.0


def test_a_model_that_is_not_finite_is_neither_saved_nor_published() -> None:
    server = started(clip=None)
    send(server, [3.4e38, 3.4e38] + [1.0] * (CLIENTS - 2))
    assert server.step == 1
    assert np.isfinite(server.params).all()
    assert server.monitor.rejected["not finite"] == CLIENTS
    send(server, [1.0] * CLIENTS)
    np.testing.assert_allclose(server.params[0], -1.0, rtol=1e-6)


def test_setting_the_systems_clock_moves_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert 0 <= clock.now() - before < 60


def heard(secret: int) -> float:
    """Mean factor of three members in ten who send what a sketch with the signs of a simulation does not show."""
    rng, guard, size, width = np.random.default_rng(0), Guard(), 1024, 512
    guard.secret = secret
    signs = np.random.default_rng(size).choice(np.array([-1, 1], np.float32), size)
    half = rng.standard_normal(width)
    hidden = np.concatenate([signs[:width] * half, -signs[width:] * half])
    hidden *= 2.5 / np.linalg.norm(hidden)
    mean, found = rng.standard_normal(size) / 32, []
    for _ in range(48):
        honest = mean + rng.standard_normal((7, size)) / 16
        rows = dict(enumerate(np.array([*honest, *[hidden] * 3], np.float32)))
        factors = guard.weigh({number: {"update": row} for number, row in rows.items()})
        found.append([factors[number] for number in (7, 8, 9)])
    return float(np.mean(found[24:]))


def test_what_is_hidden_from_known_signs_is_seen_by_a_guard_with_a_secret() -> None:
    assert heard(secret=0) == 1.0
    assert heard(secret=2**64 - 1) < 0.1


def test_a_server_draws_a_secret_and_keeps_it() -> None:
    one, other = (coordinate("f", methods.fedogd(), SPEC, Rules()).tally.guard for _ in range(2))
    assert one.secret != other.secret
    other.restore({name: array for name, array in one.export().items() if not isinstance(array, dict)})
    assert one.secret == other.secret


def test_more_members_than_are_remembered_are_each_judged_by_their_own_wishes() -> None:
    """Of 600 senders 88 are not among the last 512: all of them got the weight of number 88, who is hostile here."""
    rng, guard, size = np.random.default_rng(0), Guard(), 64
    mean, signs = rng.standard_normal(size) / 8, np.where(np.arange(600) % 8, 1, -1)[:, None]
    for _ in range(8):
        rows = (signs * mean + rng.standard_normal((600, size)) / 16).astype(np.float32)
        factors = guard.weigh({number: {"update": row} for number, row in enumerate(rows)})
    found = np.array([*factors.values()])
    assert found[signs[:, 0] > 0].min() > 0.99
    assert found[signs[:, 0] < 0].max() == 0.0


@pytest.mark.parametrize("common", [0.0, 2.0])
def test_who_is_alike_counts_less_where_most_are_not(common: float) -> None:
    """Six of twenty want the same. The other fourteen want different things, or the same one and a bit besides."""
    rng = np.random.default_rng(0)
    wishes = rng.standard_normal((20, 256)) / 16
    wishes[:14] += common * rng.standard_normal(256) / 16
    wishes[14:] = rng.standard_normal(256) / 16
    weights = balanced(wishes, np.zeros(256), 0 * wishes, np.arange(20), np.ones(20, bool), 256)
    assert weights[:14].min() > 0.99
    assert (weights[14:].max() < 0.3) == (common == 0)


@pytest.mark.parametrize("size", [16, 64, 200])
def test_whom_the_others_oppose_a_little_in_every_round_does_not_count(size: int) -> None:
    """Three of ten pull where the others want to come from: of their noise that is a small part in any one round."""
    rng, guard, found = np.random.default_rng(0), Guard(), []
    aim = rng.standard_normal(size) / np.sqrt(size)
    for _ in range(240):
        rows = rng.standard_t(3, (10, size)) + 0.8 * aim
        rows[:3] -= 5 * aim
        factors = guard.weigh({k: {"update": row.astype(np.float32)} for k, row in enumerate(rows)})
        found.append([*factors.values()])
    kept = np.mean(found[120:], axis=0)
    assert kept[:3].max() < 0.3
    assert kept[3:].min() > 0.9


@pytest.mark.parametrize("members", [5, 10, 40])
def test_votes_of_honest_members_are_chance(members: int) -> None:
    """Heavy tails and noise that follows from the last one are not taken for opinions."""
    rng, sums, squares, kept = np.random.default_rng(1), np.zeros(1), np.zeros(1), []
    noise = np.zeros((members, members))
    for _ in range(400):
        noise = 0.7 * noise + rng.standard_t(3, (members, members))
        sums, squares = 0.98 * sums + noise, 0.98 * squares + noise**2
        kept.append(trusted(sums, squares, np.full(members, 50.0)).mean())
    assert np.mean(kept) > 0.95


@pytest.mark.parametrize("hostile", [0, 3])
def test_where_everyone_wants_something_else_nobody_is_voted_down(hostile: int) -> None:
    """All are opposed by all others, since what they want adds up to nothing."""
    sums = np.full((10, 10), -12.0) + np.diag(np.full(10, 60.0))
    sums[:hostile, :hostile] = 48.0
    assert trusted(sums, np.full((10, 10), 64.0), np.full(10, 64.0)).min() == 1.0


def test_when_most_want_back_the_model_is_wrong_and_not_they() -> None:
    """First steps led too far: everyone opposes what the model did, and learning stopped for hundreds of rounds."""
    rng = np.random.default_rng(0)
    aim = rng.standard_normal(64)
    wishes = -aim + rng.standard_normal((10, 64)) / 4
    weights = balanced(wishes, 30 * aim, wishes / 10, np.arange(10), np.ones(10, bool), 64)
    assert weights.min() == 1.0
    few = np.where(np.arange(10)[:, None] < 3, wishes, -wishes)
    weights = balanced(few, 30 * aim, few / 10, np.arange(10), np.ones(10, bool), 64)
    assert weights[:3].max() == 0.0
    assert weights[3:].min() == 1.0


def test_the_first_round_is_measured_by_what_most_send_if_that_is_less_than_assumed() -> None:
    factors = one_round(Guard(), [1e-6] * 6 + [1e-3])
    assert factors[:6] == [1.0] * 6
    np.testing.assert_allclose(factors[6], 1e-3 * (FIRST + RATE), rtol=1e-6)


@pytest.mark.parametrize("updates", [1, 2, 4])
def test_members_who_have_sent_little_are_not_voted_down(updates: int) -> None:
    """Of ten classes: who has another one opposes a little, who has the same one agrees a lot, and chance is even."""
    rng, found = np.random.default_rng(2), []
    for _ in range(40):
        products = np.where(rng.random((20, 20, updates)) < 0.1, 0.9, -0.1)
        sums, squares = products.sum(2), (products**2).sum(2)
        found.append(trusted(sums, squares, np.full(20, float(updates))).mean())
    assert np.mean(found) > 0.99


def test_what_all_are_contradicted_in_counts_against_nobody() -> None:
    """The others take back what the model has followed of the noise in a member's updates, whoever it is."""
    votes = np.random.default_rng(0).standard_normal((20, 20)) - 1.0
    assert trusted(8 * votes, np.full((20, 20), 64.0), np.full(20, 64.0)).min() == 1.0
    votes[:, 3] -= 2.0
    assert trusted(8 * votes, np.full((20, 20), 64.0), np.full(20, 64.0)).argmin() == 3


@pytest.mark.parametrize("members", [5, 14, 40])
@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_in_few_dimensions_noise_is_no_opinion(size: int, members: int) -> None:
    """At rest all updates are noise: in one dimension half of them point against the other half."""
    rng, guard, kept, means = np.random.default_rng(4), Guard(), [], np.zeros((members, size))
    for _ in range(150):
        means = 0.8 * means + rng.standard_normal(means.shape)
        rows = {k: {"update": row.astype(np.float32)} for k, row in enumerate(means)}
        kept.append(np.mean([*guard.weigh(rows).values()]))
    assert np.mean(kept) > 0.8


def test_a_first_round_of_many_says_how_long_updates_are() -> None:
    """After windows of many steps they are a hundred times as long as assumed: three rounds hardly counted."""
    factors = one_round(Guard(), [90.0] * 7 + [1e6] * 3)
    assert factors[:7] == [1.0] * 7
    np.testing.assert_allclose(factors[7:], 90 * (FIRST + RATE) / 1e6, rtol=1e-6)


def test_a_scale_is_found_where_rounds_hold_one_message() -> None:
    """Ten members one after another, far from what was assumed: each step of five cost all of them a message."""
    guard, vector = Guard(), np.full(4, 4000, np.float32)
    kept = [guard.weigh({number % 10: {"update": vector}})[number % 10] for number in range(40)]
    assert kept[15:] == [1.0] * 25


def test_glitches_of_honest_members_do_not_move_what_is_usual() -> None:
    guard, rng = Guard(), np.random.default_rng(0)
    for _ in range(200):
        one_round(guard, [1e12 if glitch else 1.0 for glitch in rng.random(10) < 0.02])
    assert guard.usual() < 2.0
