"""What identifies an entry of the cache."""

import sys

import pytest

import sim.engine.keys
from hw.regs.errors import ConfigError
from sim.engine.keys import cpu, design_key, digest, sources


def test_a_digest_tells_parts_apart():
    assert digest("ab", "c") == digest("ab", b"c")
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "celosia_sample"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "table.bin").write_bytes(b"\0\1")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    sys.modules.pop(folder.name, None)


def test_sources_change_with_every_byte_name_and_file(package):
    def now():
        return sources(package.name)

    seen = [now()]
    (package / "inner" / "table.bin").write_bytes(b"\0\2")
    seen.append(now())
    (package / "inner" / "table.bin").rename(package / "inner" / "other.bin")
    seen.append(now())
    (package / "more.py").write_text("")
    seen.append(now())
    assert len(set(seen)) == 4
    (package / "more.py").unlink()
    assert now() == seen[2]


def test_compiled_files_of_python_do_not_count(package):
    before = sources(package.name)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert sources(package.name) == before


def test_sources_of_no_package_are_refused():
    with pytest.raises(ConfigError, match="the sources of 'celosia_absent' identify"):
        sources("celosia_absent")


def test_a_design_is_known_by_its_parameters_and_versions(monkeypatch):
    key = design_key(("tiny", 4), "all")
    assert design_key(("tiny", 4), "all") == key
    assert design_key(("tiny", 5), "all") != key
    monkeypatch.setattr(sim.engine.keys, "version", lambda package: "0.0")
    assert design_key(("tiny", 4), "all") != key


def test_the_processor_is_described_without_what_changes_while_it_runs():
    assert cpu()
    assert "MHz" not in cpu()
    assert "bogomips" not in cpu().lower()
