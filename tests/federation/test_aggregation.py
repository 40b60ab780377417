"""Secure aggregation: the server gets the sum, whoever drops out and when, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ofediq.errors import InputError, WireError
from ofediq.federation.secure import MIN_COHORT, Aggregator, Member, least_answers
from ofediq.federation.secure.masking import KEY_BYTES, agree, mask
from ofediq.federation.secure.shamir import join, split

Symbols = npt.NDArray[np.uint32]

BITS, LENGTH = 11, 40
POINTS = ("keys", "shares", "masked", "answer")


class Play:
    """A round with all its messages; members drop out before the message that `gone` names."""

    def __init__(self, cohort: int, gone: dict[int, str] | None = None, length: int = LENGTH) -> None:
        self.gone = gone or {}
        self.server = Aggregator(b"round 1", length, BITS)
        self.numbers = [3 * one + 1 for one in range(cohort)]
        self.members = {number: Member(number, b"round 1") for number in self.numbers}
        rng = np.random.default_rng(cohort)
        self.symbols = {number: rng.integers(0, 2**BITS, length, dtype=np.uint32) for number in self.numbers}
        self.sent: dict[int, Symbols] = {}

    def there(self, point: str) -> Iterable[int]:
        """Who still speaks."""
        past = POINTS[: POINTS.index(point) + 1]
        return [number for place, number in enumerate(self.numbers) if self.gone.get(place) not in past]

    def run(self) -> Symbols:
        server = self.server
        for number in self.there("keys"):
            server.take_keys(number, self.members[number].keys())
        for number in self.there("shares"):
            server.take_shares(number, self.members[number].shares(server.keys))
        for number in self.there("masked"):
            self.sent[number] = self.masked(number)
            server.take_masked(number, self.sent[number])
        for number in self.there("answer"):
            server.take_answer(number, self.members[number].answer(server.heard))
        return server.total()

    def masked(self, number: int) -> Symbols:
        """What a member sends."""
        return self.members[number].masked(self.symbols[number], BITS, self.server.shares_for(number))

    def wanted(self) -> Symbols:
        """The sum over those who were heard, in the clear."""
        whole = sum(self.symbols[number].astype(np.int64) for number in self.there("masked"))
        return np.asarray(whole % 2**BITS, np.uint32)


@pytest.mark.parametrize("cohort", [8, 9, 20])
def test_a_sum_comes_out(cohort: int) -> None:
    play = Play(cohort)
    assert (play.run() == play.wanted()).all()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("count", [1, 3])
def test_members_may_drop_out_at_every_point(point: str, count: int) -> None:
    play = Play(12, dict.fromkeys(range(count), point))
    assert (play.run() == play.wanted()).all()


@settings(max_examples=30, deadline=None)
@given(gone=st.dictionaries(st.integers(0, 11), st.sampled_from(POINTS), max_size=8))
def test_a_sum_or_nothing(gone: dict[int, str]) -> None:
    """Whoever drops out: either the sum of those who were heard, or a refusal because they are too few."""
    play = Play(12, gone, length=5)
    left = {point: len(list(play.there(point))) for point in POINTS}
    enough = left["keys"] >= MIN_COHORT and left["answer"] >= least_answers(left["keys"])
    if enough:
        assert (play.run() == play.wanted()).all()
    else:
        with pytest.raises(InputError):
            play.run()


# Members that lie ---------------------------------------------------------------------------------------------------


class Liars(Play):
    """Some members answer with noise."""

    liars: tuple[int, ...] = ()

    def run(self) -> Symbols:
        honest = {number: member.answer for number, member in self.members.items()}

        def lie(number: int, heard: Iterable[int]) -> bytes:
            return np.random.default_rng(number).bytes(len(honest[number](heard)))

        for place in self.liars:
            number = self.numbers[place]
            self.members[number].answer = partial(lie, number)  # type: ignore[method-assign]  # of bad will
        return super().run()


@pytest.mark.parametrize("liars", [(0,), (11,), (3, 7)])
def test_one_or_two_wrong_answers_do_not_change_the_sum(liars: tuple[int, ...]) -> None:
    play = Liars(12)
    play.liars = liars
    assert (play.run() == play.wanted()).all()


def test_more_wrong_answers_end_the_round_without_a_sum() -> None:
    play = Liars(9)
    play.liars = (0, 1, 2, 3)
    with pytest.raises(WireError, match="contradict each other"):
        play.run()


# A server that wants to know more ----------------------------------------------------------------------------------


def spied(play: Play, number: int) -> Symbols:
    """What is left of a member's message when the server takes away every mask that it can make.

    It knows all keys, all sealed shares, and the answers: the own seeds of those who were heard, and the mask keys of
    those who were not.
    """
    server = play.server
    places = {one: place for place, one in enumerate(sorted(server.keys), 1)}
    left = play.sent[number].copy()
    for index, partner in enumerate(sorted(server.sealed)):
        part = slice(index * KEY_BYTES, (index + 1) * KEY_BYTES)
        secret = join({places[one]: answer[part] for one, answer in server.answers.items()})
        if partner == number and number in server.masked:
            left -= mask(secret, server.length, BITS)
        elif partner not in server.masked and partner != number:
            low, high = sorted((number, partner))
            key = _key(secret)
            shared = agree(key, server.keys[number][:KEY_BYTES], b"mask|%d|%d|round 1" % (low, high))
            drawn = mask(shared, server.length, BITS)
            left = left - drawn if number < partner else left + drawn
    return left & np.uint32(2**BITS - 1)


def _key(secret: bytes) -> object:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret)


def test_a_spying_server_reads_no_member() -> None:
    play = Play(10, {0: "masked", 1: "answer"}, length=4000)
    assert (play.run() == play.wanted()).all()
    for number in play.sent:
        error = (spied(play, number) - play.symbols[number]) & np.uint32(2**BITS - 1)
        counts = np.bincount(error >> np.uint32(BITS - 4), minlength=16)  # as good as random bits
        assert stats.chisquare(counts).pvalue > 1e-6
        assert abs(np.corrcoef(error, play.symbols[number])[0, 1]) < 0.1


def test_no_set_of_members_is_read_but_all_who_were_heard() -> None:
    """Masks cancel in no smaller sum."""
    play = Play(8, length=300)
    total = play.run()
    for count in range(1, 8):
        for some in itertools.islice(itertools.combinations(play.sent, count), 10):
            left = sum(spied(play, number).astype(np.int64) for number in some) % 2**BITS
            real = sum(play.symbols[number].astype(np.int64) for number in some) % 2**BITS
            assert (left == real).mean() < 0.05
    everyone = sum(spied(play, number).astype(np.int64) for number in play.sent) % 2**BITS
    assert (everyone == total).all()


def test_a_message_that_comes_too_late_stays_unread() -> None:
    """Its mask key was given away when it was missing; the mask of its own was not."""
    play = Play(9, {0: "masked"}, length=2000)
    assert (play.run() == play.wanted()).all()
    late = play.numbers[0]
    server, symbols = play.server, play.masked(late)
    places = {one: place for place, one in enumerate(sorted(server.keys), 1)}
    index = sorted(server.sealed).index(late)
    part = slice(index * KEY_BYTES, (index + 1) * KEY_BYTES)
    key = _key(join({places[one]: answer[part] for one, answer in server.answers.items()}))
    left = symbols
    for other in server.masked:
        low, high = sorted((late, other))
        shared = agree(key, server.keys[other][:KEY_BYTES], b"mask|%d|%d|round 1" % (low, high))
        drawn = mask(shared, 2000, BITS)
        left = left - drawn if late < other else left + drawn
    error = (left - play.symbols[late]) & np.uint32(2**BITS - 1)
    own = play.members[late]._own_seed
    assert (error == mask(own, 2000, BITS)).all()  # nothing but its own mask is between server and symbols
    assert (error == 0).mean() < 0.01


def test_a_member_answers_once_and_never_about_too_few() -> None:
    play = Play(9)
    server = play.server
    for number in play.numbers:
        server.take_keys(number, play.members[number].keys())
    for number in play.numbers:
        server.take_shares(number, play.members[number].shares(server.keys))
    for number in play.numbers:
        server.take_masked(number, play.masked(number))
    member = play.members[play.numbers[0]]
    with pytest.raises(WireError, match="too few"):
        member.answer(play.numbers[:5])
    with pytest.raises(WireError, match="strangers"):
        member.answer([*play.numbers, 999])
    member.answer(play.numbers)
    with pytest.raises(WireError, match="came already"):
        member.answer(play.numbers[:8])
    with pytest.raises(WireError, match="came already"):
        member.masked(play.symbols[play.numbers[0]], BITS, server.shares_for(play.numbers[0]))
    with pytest.raises(WireError, match="came already"):
        member.shares(server.keys)


def test_a_member_refuses_small_cohorts_and_foreign_keys() -> None:
    member, others = Member(0, b"r"), [Member(number, b"r") for number in range(1, 8)]
    keys = {one.number: one.keys() for one in others}
    with pytest.raises(WireError, match="7 members"):
        member.shares(keys)
    with pytest.raises(WireError, match="this one among them"):
        member.shares({**keys, 0: others[0].keys(), 9: b""})
    with pytest.raises(WireError, match="two members share them"):
        member.shares({**keys, 0: member.keys(), 9: others[0].keys()})
    with pytest.raises(WireError, match="not a public key"):
        member.shares({**keys, 0: member.keys(), 7: bytes(64)})  # a point of small order


def test_shares_that_were_changed_do_not_open() -> None:
    play = Play(8)
    for number in play.numbers:
        play.server.take_keys(number, play.members[number].keys())
    for number in play.numbers:
        play.server.take_shares(number, play.members[number].shares(play.server.keys))
    first = play.numbers[0]
    shares = play.server.shares_for(first)
    other = play.numbers[1]
    shares[other] = bytes([shares[other][0] ^ 1]) + shares[other][1:]
    with pytest.raises(WireError, match="does not open"):
        play.members[first].masked(play.symbols[first], BITS, shares)


# Shares -----------------------------------------------------------------------------------------------------------


@given(secret=st.binary(min_size=1, max_size=40), count=st.integers(1, 30), data=st.data())
def test_enough_shares_give_the_secret_back(secret: bytes, count: int, data: st.DataObject) -> None:
    needed = data.draw(st.integers(1, count))
    shares = split(secret, needed, count)
    chosen = data.draw(st.permutations(range(1, count + 1)))[:needed]
    assert join({number: shares[number - 1] for number in chosen}) == secret


def test_too_few_shares_say_nothing() -> None:
    """Two shares of three needed are the same two bytes for every secret, equally often."""
    seen = [join({1: one[0], 2: one[1]})[0] for one in (split(b"x", 3, 3) for _ in range(6000))]
    assert stats.chisquare(np.bincount(np.array(seen) >> 4, minlength=16)).pvalue > 1e-6
