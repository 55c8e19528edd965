"""Encoding and decoding of words, and what is refused."""

import enum

import numpy as np
import pytest
from amaranth.lib import data
from hypothesis import given, settings
from hypothesis import strategies as st

from hw.layout import struct
from hw.regs.errors import EncodingError, NpuError
from hw.regs.export.common import FORMATS
from hw.regs.layout import Array, Field, Layout, Reserved, snake_case
from hw.regs.registers import REGISTER_MAP

WORDS = [*FORMATS, *(register for block in REGISTER_MAP for register in block)]


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 3


class Sample(Layout, width=64):
    """Each kind of field."""

    colour = Field(2, "An enumeration.", enum=Colour, reset=Colour.RED)
    level = Field(6, "Signed.", signed=True)
    pair = Array(8, "Two numbers.", count=2)
    reserved = Reserved(4)
    plain = Field(20, "A number.")


def values(word):
    """Values for all fields of a word, within their limits."""
    fields = {}
    for field in word.FIELDS:
        if isinstance(field, Reserved):
            continue
        if field.enum is not None:
            fields[field.name] = st.sampled_from(list(field.enum))
            continue
        low, high = field.limits
        number = st.integers(low, high) | st.sampled_from([low, high])
        if isinstance(field, Array):
            number = st.tuples(*[number] * field.count)
        fields[field.name] = number
    return st.fixed_dictionaries(fields)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_every_word_decodes_to_what_was_encoded(choice):
    word = choice.draw(st.sampled_from(WORDS))
    encoded = word(**choice.draw(values(word)))
    assert word.from_int(encoded.to_int()) == encoded
    assert word.from_bytes(encoded.to_bytes()) == encoded
    assert len(encoded.to_bytes()) == word.BYTES
    assert hash(word.from_int(encoded.to_int())) == hash(encoded)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_gateware_sees_the_same_bits(choice):
    word = choice.draw(st.sampled_from(WORDS))
    encoded = word(**choice.draw(values(word)))
    layout = struct(word)
    assert layout.size == word.WIDTH
    constant = data.Const(layout, encoded.to_int())
    for field in word.FIELDS:
        seen = getattr(constant, field.name)
        seen = tuple(seen) if isinstance(field, Array) else seen
        assert seen == getattr(encoded, field.name)


def test_fields_lie_one_above_the_other():
    word = Sample(colour=Colour.BLUE, level=-1, pair=(1, 2), plain=5)
    assert word.to_int() == 0b11 | 0x3F << 2 | 1 << 8 | 2 << 16 | 5 << 28
    assert [field.offset for field in Sample.FIELDS] == [0, 2, 8, 24, 28]
    assert (Sample.WIDTH, Sample.BYTES) == (64, 8)


def test_fields_have_their_resets():
    assert Sample().as_dict() == {
        "colour": 1, "level": 0, "pair": (0, 0), "reserved": 0, "plain": 0,
    }  # fmt: skip


def test_short_arrays_are_filled_with_zeros():
    assert Sample(pair=[7]).pair == (7, 0)
    assert Sample(pair=np.array([7, 8])).pair == (7, 8)


def test_numpy_integers_are_integers():
    assert Sample(plain=np.int32(9)).plain == 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plain": 1 << 20}, r"Sample\.plain is 1048576; it must lie within 0 … 1048575"),
        ({"plain": -1}, r"Sample\.plain is -1; it must lie within 0 …"),
        ({"plain": 1.5}, r"Sample\.plain takes an integer, not 1\.5"),
        ({"plain": "5"}, r"Sample\.plain takes an integer, not '5'"),
        ({"level": 32}, r"Sample\.level is 32; it must lie within -32 … 31"),
        ({"colour": 2}, r"Sample\.colour is 2, which has no meaning; choose one of RED=1, BLUE=3"),
        ({"pair": (1, 2, 3)}, r"Sample\.pair has 3 elements; it takes up to 2"),
        ({"pair": (1, 256)}, r"Sample\.pair\[1\] is 256; it must lie within 0 … 255"),
        ({"pair": 1}, r"Sample\.pair takes 2 integers, not 1"),
        ({"plain": np.array([1, 2])}, r"Sample\.plain takes an integer, not array"),
        ({"reserved": 1}, r"Sample\.reserved is reserved and must be 0, not 1"),
        ({"color": 1}, r"Sample has no field 'color'; it has colour, level,"),
    ],
)
def test_values_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(EncodingError, match=message) as caught:
        Sample(**changes)
    assert isinstance(caught.value, NpuError)
    with pytest.raises(EncodingError, match=message):
        Sample().replace(**changes)


def test_what_the_device_wrote_is_shown_as_it_is():
    word = Sample.from_int(2 | 0xF << 24)
    assert word.colour == 2
    assert word.reserved == 0xF


def test_replace_leaves_the_original_alone():
    word = Sample(plain=1)
    assert (word.replace(plain=2).plain, word.plain) == (2, 1)


def test_words_of_different_kinds_differ():
    class Other(Layout, width=64):
        colour = Field(2, "The same.", reset=1)

    assert Other() != Sample()
    assert "plain=3" in repr(Sample(plain=3))


def test_more_bits_than_the_width_are_a_mistake():
    with pytest.raises(AssertionError, match="has 9 bits, more than 8"):

        class Wide(Layout, width=8):
            field = Field(9, "Too wide.")


def test_the_mask_leaves_reserved_bits_and_padding_out():
    assert Sample.MASK == 0xF_FFFF_0FF_FFFF


def test_names_in_snake_case():
    assert [snake_case(name) for name in ("Sqe", "RingBase", "FaultStartPc")] == [
        "sqe", "ring_base", "fault_start_pc",
    ]  # fmt: skip


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.__name__)
def test_every_field_has_one_line_of_documentation(word):
    assert word.__doc__
    for field in word.FIELDS:
        assert field.doc.strip()
        assert "\n" not in field.doc
