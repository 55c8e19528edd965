"""The checker of AXI4 ports finds each broken rule, and nothing in what is legal."""

from types import SimpleNamespace

import pytest

from tests.models.axi_checker import CHANNELS, AxiChecker

WIDTH = 8


def address(addr=0, beats=1, key=0, size=3, burst=1):
    return SimpleNamespace(addr=addr, len=beats - 1, id=key, size=size, burst=burst)


def w(last, data=0):
    return SimpleNamespace(last=last, data=data)


def r(last, key=0):
    return SimpleNamespace(last=last, id=key)


def b(key=0):
    return SimpleNamespace(id=key)


def play(*steps, burst_beats=256):
    """Each step gives what passes in a cycle; a list in place of an item: it has to wait."""
    checker = AxiChecker(WIDTH, burst_beats)
    for step in steps:
        seen = {name: (0, 1, None) for name in CHANNELS}
        for name, item in step.items():
            seen[name] = (1, 0, item[0]) if isinstance(item, list) else (1, 1, item)
        checker.see(**seen)
    return checker


def test_legal_traffic_passes_with_data_before_with_and_after_its_address():
    checker = play(
        {"aw": address(key=1), "w": w(1), "ar": address(0x40, beats=2, key=3)},
        {"w": w(0), "b": b(1), "r": r(0, 3), "ar": address(key=2)},
        {"w": [w(1)], "r": r(1, 2)},
        {"w": w(1), "r": [r(1, 3)]},
        {"aw": address(beats=2, key=1), "r": r(1, 3)},
        {"b": [b(1)], "aw": address(0xFF8, key=2)},
        {"b": b(1)},
        {"w": w(1)},
        {"b": b(2)},
    )
    assert checker.idle
    assert checker.passed == {"aw": 3, "w": 4, "b": 3, "ar": 2, "r": 3}


@pytest.mark.parametrize("step", [{"ar": address()}, {"aw": address()}, {"w": w(1)}])
def test_what_has_no_answer_yet_is_not_idle(step):
    assert not play(step).idle


@pytest.mark.parametrize(("message", "steps"), [
    ("AW was retracted", [{"aw": [address()]}, {}]),
    ("W changed while it waited", [{"w": [w(1)]}, {"w": w(1, data=5)}]),
    ("R changed while it waited",
     [{"ar": address(key=1), "aw": address()}, {"ar": address(key=2)},
      {"r": [r(1, 1)]}, {"r": r(1, 2)}]),
    ("AR is not INCR", [{"ar": address(burst=2)}]),
    ("AW has narrow beats", [{"aw": address(size=2)}]),
    ("AR is not aligned", [{"ar": address(4)}]),
    ("AW crosses 4 KiB", [{"aw": [address(0xFF8, beats=2)]}]),
    ("AR has more than 16 beats", [{"ar": address(beats=17)}]),
    ("WLAST is in the wrong place", [{"aw": address(beats=2)}, {"w": w(1)}]),
    ("WLAST is in the wrong place", [{"w": w(0)}, {"aw": address()}]),
    ("RLAST is in the wrong place", [{"ar": address(beats=2)}, {"r": r(1)}]),
    ("RLAST is in the wrong place",
     [{"ar": address(beats=2)}, {"ar": address()}, {"r": r(1)}]),
    ("R of ID 1 came before its AR", [{"ar": address()}, {"r": r(1, 1)}]),
    ("R of ID 0 came before its AR", [{"ar": address(), "r": r(1)}]),
    ("B of ID 0 came before its AW and WLAST", [{"w": w(1)}, {"b": b()}]),
    ("B of ID 0 came before its AW and WLAST", [{"aw": address()}, {"b": b()}]),
    ("B of ID 0 came before its AW and WLAST", [{"aw": address(), "w": w(1), "b": b()}]),
    ("B of ID 0 came before its AW and WLAST",
     [{"aw": address(), "w": w(1)}, {"b": b()}, {"b": b()}]),
])  # fmt: skip
def test_each_broken_rule_is_named(message, steps):
    play(*steps[:-1], burst_beats=16)
    with pytest.raises(AssertionError, match=message):
        play(*steps, burst_beats=16)
