# amaranth: UnusedElaboratable=no
"""Which engine is taken, and what it says of it."""

from types import SimpleNamespace

import pytest

import sim.engines
import sim.link
from hw.config import ConfigError
from sim.board.config import BoardConfig
from sim.engines import Choice, choose, make_engine

from . import stub


@pytest.mark.parametrize("name", ["compiled", "pysim"])
def test_an_engine_that_is_named_is_taken(name):
    assert choose(name) == Choice(name, "chosen")


def test_auto_is_the_compiled_engine_where_there_is_a_compiler(monkeypatch):
    monkeypatch.setattr(sim.engines, "compiler", lambda cache: SimpleNamespace(name="clang"))
    assert choose("auto") == Choice("compiled", "by clang")


def test_auto_without_a_compiler_is_pysim_and_says_how_to_get_the_fast_one(monkeypatch):
    monkeypatch.setattr(sim.engines, "compiler", lambda cache: None)
    choice = choose("auto")
    assert choice[:2] == ("pysim", "no C compiler")
    assert choice.advice is not None
    assert "pip install 'celosia[compiler]' brings a C compiler" in choice.advice
    link = sim.link.open(config=stub.CONFIG, board=BoardConfig.fast(), npu=stub.Stub())
    assert (link.engine.name, link.choice) == ("pysim", choice)
    link.close()


def test_another_name_is_refused():
    with pytest.raises(ConfigError, match="no engine is called 'Pysim'; choose one of auto, "):
        choose("Pysim")


def test_an_npu_is_compiled_once_and_elaborated_no_more(monkeypatch):
    """The key says what it is; an NPU that somebody brings has none."""
    boards = []

    class Board:
        name = "compiled"

        def __init__(self, make, **options):
            boards.append(options)

    monkeypatch.setattr("sim.engine.compiled.CompiledBoard", Board)
    for board, npu in (
        (BoardConfig(), None), (BoardConfig(), None), (BoardConfig(stall=1), None),
        (BoardConfig(), stub.Stub()),
    ):  # fmt: skip
        make_engine("compiled", stub.CONFIG, board, npu)
    keys = [options["key"] for options in boards]
    assert keys[0] == keys[1] is not None
    assert keys[2] not in (None, keys[0])
    assert keys[3] is None
