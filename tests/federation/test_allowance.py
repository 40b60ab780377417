"""What one member may cost the others."""

from __future__ import annotations

import numpy as np

from ofediq import methods
from ofediq.codec import Raw, pack_frame
from ofediq.federation.protocol.allowance import MESSAGES, PER_SECOND, Allowance
from ofediq.federation.protocol.intake import ATTEMPTS
from ofediq.federation.protocol.members import DOUBT, PATIENCE
from ofediq.federation.protocol.messages import UpdateMessage, write_json
from ofediq.federation.protocol.reports import Report
from ofediq.methods.budgets.purse import CARRIED, SHARE, Purse
from ofediq.methods.budgets.steered import for_each
from ofediq.methods.robust.guard import Guard
from ofediq.randomness import Address
from tests.federation.network import FEDERATION
from tests.federation.test_core import CLIENTS, coordinator
from tests.federation.test_guard import send, started


def test_a_member_gets_a_multiple_of_its_share_and_no_more() -> None:
    purse, fair, members = Purse(1000.0), 1000.0, 10
    sent = 0
    for _ in range(1000):
        sent += 700 * int(purse.pays([0], [700], members)[0])
        assert purse.pays([1], [int(fair / members)], members).all()
        purse.closed()
    assert sent <= SHARE * fair / members * (1000 + CARRIED)
    assert sent >= SHARE * fair / members * 900


def test_who_loses_what_it_sends_to_the_guard_has_one_share() -> None:
    guard, purse, members = Guard(), Purse(1000.0), 10
    sent = 0
    for _ in range(1000):
        sent += 700 * int(purse.pays([0], [700], members, guard.kept([0]))[0])
        assert purse.pays([1], [280], members, guard.kept([1])).all()
        guard.weigh({k: {"update": np.full(4, 9.0 if k == 0 else 1.0, np.float32)} for k in range(members)})
        purse.closed()
    assert 0.9 * 100 * 1000 <= sent <= 100 * (1000 + SHARE * CARRIED)


def test_a_budget_that_pays_for_a_message_in_hundreds_of_rounds_drops_no_honest_one() -> None:
    """Messages of 200 bits, each member sends at one of 100 rounds on average: 2 bits per member and round."""
    rng, purse, members = np.random.default_rng(0), Purse(2.0 * 20), 20
    dropped = 0
    for _ in range(2000):
        who = np.flatnonzero(rng.random(members) < 0.01)
        dropped += int((~purse.pays(who, rng.integers(150, 300, who.size), members)).sum())
        purse.closed()
    assert dropped == 0


def test_what_a_usual_message_costs_is_learnt_and_not_from_a_minority() -> None:
    """Messages of 20,000 bits at 20 bits per member and round; three of ten send a million bits, from the start."""
    purse, members, stolen, honest = Purse(20.0 * 10), 10, 0, []
    for step in range(3000):
        stolen += int(purse.pays([7, 8, 9], [10**6] * 3, members).sum())
        if step % 143 == 0:  # one of them every 1,001 rounds
            honest.append(bool(purse.pays([step // 143 % 7], [20_000], members)[0]))
        purse.closed()
    assert stolen == 0
    assert all(honest[7:])
    again = Purse(20.0 * 10)
    again.restore(purse.export())
    assert again.pays([0], [20_000], members).tolist() == purse.pays([0], [20_000], members).tolist()


def test_methods_whose_senders_are_drawn_have_no_purse() -> None:
    assert Purse.of(methods.ofediq(0.1, 3, 14)).fair is None
    assert Purse.of(methods.ofedgrid(500.0)).fair == 500.0


def test_bits_of_each_member_do_not_shrink_as_others_come() -> None:
    alone = Purse.of(for_each(methods.ofedgrid(500.0), 5))
    assert (alone.fair, alone.each) == (100.0, True)
    for number, members in ((0, 1), (999, 1000)):
        assert alone.pays([number], [CARRIED * int(SHARE) * 100], members).all()


def test_a_flood_is_dropped_unread_and_ends() -> None:
    purse = Allowance(Purse())
    assert sum(purse.hears("loud", 0.0) for _ in range(10_000)) == MESSAGES
    assert purse.hears("quiet", 0.0)
    assert sum(purse.hears("loud", 1.0) for _ in range(10_000)) == PER_SECOND


def test_a_flood_of_farewells_in_a_members_name_does_not_silence_its_updates() -> None:
    """They had one allowance: whoever said 65 times that a member is gone kept its update out of the round."""
    server = coordinator(methods.fedogd(1.0))
    server.connected(0.0)
    for name in (f"c{number}" for number in range(CLIENTS)):
        server.receive(f"{FEDERATION}/here/{name}", write_json(online=True), 0.0)
    for _ in range(500):
        server.receive(f"{FEDERATION}/here/c0", write_json(online=False), 0.0)
    flooded = server.monitor.rejected["flood"]
    body = pack_frame(Raw().encode(np.ones(650, np.float32), Address(5, 1, 0)), 1)
    server.receive(f"{FEDERATION}/u/c0", UpdateMessage(Report(), 1, body).encode(), 0.0)
    assert flooded == 500 + 1 - MESSAGES
    assert server.monitor.rejected["flood"] == flooded


def test_greetings_and_frames_beyond_the_allowance_cost_nothing_more() -> None:
    server = coordinator(methods.fedogd(1.0))
    server.connected(0.0)
    answers = sum(
        len(server.receive(f"{FEDERATION}/here/c0", write_json(online=True), 0.0)) for _ in range(5000)
    )
    assert answers <= MESSAGES
    assert server.monitor.rejected["flood"] == 5000 - MESSAGES


def test_frames_that_cannot_be_read_are_tried_a_few_times_per_round() -> None:
    server = coordinator(methods.fedogd(1.0))
    server.connected(0.0)
    for number in range(CLIENTS):
        server.receive(f"{FEDERATION}/here/c{number}", write_json(online=True), 0.0)
    for _ in range(ATTEMPTS + 3):
        server.receive(f"{FEDERATION}/u/c0", UpdateMessage(Report(), 1, b"nonsense").encode(), 0.0)
    assert server.monitor.rejected == {"malformed": ATTEMPTS, "flood": 3}


def test_in_ofedgrid_a_thief_leaves_the_others_their_bits() -> None:
    """Full-size frames with tiny norms from one member, in every round."""
    server = coordinator(methods.ofedgrid(0.05 * 32 * 650 * CLIENTS), period_steps=40, clip=20.0)
    server.connected(0.0)
    for number in range(CLIENTS):
        server.receive(f"{FEDERATION}/here/c{number}", write_json(online=True), 0.0)
    raw = np.full(650, 1e-20, np.float32)
    for step in range(1, 41):
        body = pack_frame(Raw().encode(raw, Address(0, step, 0)), step)
        for number in range(CLIENTS):
            said = UpdateMessage(Report(), step, body if number == 0 else b"")
            server.receive(f"{FEDERATION}/u/c{number}", said.encode(), 0.0)
    assert server.monitor.rejected["beyond its share"] + server.monitor.rejected["malformed"] > 0
    fair = 0.05 * 32 * 650
    assert server.monitor.totals()["bits_wire"] <= SHARE * fair * (40 + CARRIED)


def test_who_spoke_and_left_has_taken_part_in_the_round() -> None:
    """With min_clients = K a last will, true or false, kept the round open until its deadline."""
    server = started(clip=None)
    send(server, [1.0])
    server.receive(f"{FEDERATION}/here/c0", write_json(online=False), 0.0)
    before = server.step
    send(server, [1.0] * CLIENTS)  # c0's second one is a duplicate
    assert server.step == before + 1


def test_who_came_back_is_asked_before_it_is_gone_again() -> None:
    server = started(clip=None)

    def said(online: bool, now: float) -> frozenset[str]:
        server.receive(f"{FEDERATION}/here/c0", write_json(online=online), now)
        server.tick(now)
        return frozenset(server.members.present)

    assert "c0" not in said(False, 1.0)  # at once: it is the first time
    assert "c0" in said(True, 1.1)
    assert "c0" in said(False, 1.2)
    assert "c0" in said(True, 1.3)  # it answers in time
    assert "c0" in said(False, 1.4 + DOUBT)
    server.tick(1.5 + 2 * DOUBT)
    assert "c0" not in server.members.present


def test_when_all_were_silent_rounds_wait_for_anybody_and_who_is_late_gets_a_chance() -> None:
    """Else rounds close as they open, and every update that is on its way comes too late, for ever."""
    server, now = started(clip=None), 0.0
    for _ in range(PATIENCE):
        now += 11.0
        server.tick(now)
    step = server.step
    assert step == PATIENCE
    server.tick(now + 1)
    assert server.step == step
    server.tick(now + 11)
    assert server.step == step + 1
    assert not server.members.awaited("c0")
    body = pack_frame(Raw().encode(np.ones(650, np.float32), Address(0, step + 1, 0)), step + 1)
    late = UpdateMessage(Report(), step + 1, body).encode()
    server.receive(f"{FEDERATION}/u/c0", late, now + 11)
    assert server.members.awaited("c0")
