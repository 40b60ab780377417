import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofediq.errors import InputError
from ofediq.theory import message_bits, quantizer_variance


@given(levels=st.integers(1, 2**15), dim=st.integers(1, 10**6), data=st.data())
def test_definition_2(levels: int, dim: int, data: st.DataObject) -> None:
    blocks = data.draw(st.integers(1, dim))
    longest = math.ceil(dim / blocks)
    smaller = min(longest / levels**2, math.sqrt(longest) / levels)
    assert quantizer_variance(levels, blocks, dim) == pytest.approx(smaller, rel=1e-12)
    assert message_bits(levels, blocks, dim) == pytest.approx(
        32 * blocks + dim * (1 + math.log2(levels + 1)), rel=1e-12
    )


def test_table_1_takes_the_square_root_branch_without_the_ceiling() -> None:
    assert quantizer_variance(17, 1134, 34826, "sqrt") == pytest.approx(math.sqrt(34826 / (1134 * 17**2)))


def test_one_block_is_the_qsgd_bound() -> None:
    assert quantizer_variance(7, 1, 34826) == pytest.approx(math.sqrt(34826) / 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"levels": 0}, "`levels` must be an integer from 1 to 32768, got 0"),
        ({"levels": 2**15 + 1}, "`levels` must be an integer from 1 to 32768, got 32769"),
        ({"blocks": 0}, "`blocks` must be an integer from 1 to 10, got 0"),
        ({"blocks": 11}, "`blocks` must be an integer from 1 to 10, got 11"),
        ({"dim": 0}, "`dim` must be an integer from 1 to 1099511627776, got 0"),
        ({"dim": 10.0}, "`dim` must be an integer from 1 to 1099511627776, got 10.0"),
    ],
)
def test_bad_input_is_one_sentence(arguments: dict[str, int], message: str) -> None:
    for function in (message_bits, quantizer_variance):
        with pytest.raises(InputError) as caught:
            function(**{"levels": 3, "blocks": 2, "dim": 10, **arguments})
        assert str(caught.value) == message


def test_an_unknown_bound_is_refused() -> None:
    with pytest.raises(InputError, match="`variance` must be one of min, sqrt, got 'max'"):
        quantizer_variance(3, 2, 10, "max")  # type: ignore[arg-type]  # the point of the test
