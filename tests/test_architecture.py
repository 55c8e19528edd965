"""Which part may know which other, and what lies where."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOP = {
    "hw", "rt", "sim", "tests", "waves", ".ci",
    "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore",
}  # fmt: skip
HOST_SIDE_OF_HW = ("hw.config", "hw.regs")
"""What a host may know of the gateware: formats and sizes."""
BOTH_SIDES = ("sim.cli", "sim.jobs", "sim.latency", "sim.link")
"""The command, its jobs, what it measures and the simulated link are where gateware, driver and
simulation meet."""


def modules(package):
    """Name and file of every module of a package."""
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts).removesuffix(".__init__"), path


def imports(name, path):
    """Full names of what a module imports, wherever in it."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                above = parts[: len(parts) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def within(imported, *packages):
    return any(imported == each or imported.startswith(each + ".") for each in packages)


def offenders(package, forbidden):
    """(module, what it imports) for all in the package that `forbidden` holds for."""
    return [
        (name, imported)
        for name, path in modules(package)
        for imported in imports(name, path)
        if forbidden(imported)
    ]


def test_imports_are_resolved_as_python_does(tmp_path):
    file = tmp_path / "c.py"
    file.write_text("import x.y\nfrom . import d\nfrom ..e import f\ndef g():\n from h import i\n")
    assert list(imports("a.b.c", file)) == [
        "x.y", "a.b", "a.b.d", "a.e", "a.e.f", "h", "h.i"
    ]  # fmt: skip
    assert list(imports("a.b", ROOT / "sim" / "__init__.py"))[:2] == ["a.b.link", "a.b.link.open"]


def test_hw_imports_neither_rt_nor_sim():
    assert offenders("hw", lambda imported: within(imported, "rt", "sim", "tests")) == []


def test_rt_imports_of_hw_only_regs_and_config():
    def forbidden(imported):
        return within(imported, "sim", "tests", "amaranth") or (
            within(imported, "hw") and imported != "hw" and not within(imported, *HOST_SIDE_OF_HW)
        )

    assert offenders("rt", forbidden) == []


def test_regs_and_config_import_no_amaranth_and_nothing_else_of_hw():
    def forbidden(imported):
        return within(imported, "amaranth") or (
            within(imported, "hw") and not within(imported, *HOST_SIDE_OF_HW)
        )

    found = offenders("hw", forbidden)
    assert [pair for pair in found if within(pair[0], *HOST_SIDE_OF_HW)] == []


def test_amaranth_is_used_by_gateware_its_engines_and_their_bench_only():
    users = {name for name, imported in offenders("sim", lambda i: within(i, "amaranth"))}
    assert all(within(name, "sim.board", "sim.engine", "sim.bench") for name in users), users


def test_only_the_command_and_the_link_join_simulation_and_driver():
    users = {name for name, imported in offenders("sim", lambda i: within(i, "rt"))}
    assert [name for name in users if not within(name, *BOTH_SIDES)] == []


def test_nothing_imports_the_command():
    for package in ("hw", "rt", "sim"):
        assert offenders(package, lambda imported: within(imported, "sim.cli")) == []


@pytest.mark.parametrize("module", ["rt", "rt.models.digits", "hw.config", "hw.regs.export"])
def test_the_host_side_runs_without_amaranth(module):
    code = f"import {module}, sys; print(sorted(m for m in sys.modules if m[:4] == 'amar'))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_top_of_the_repository_holds_what_the_readme_says():
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    found = {
        path.name
        for path in ROOT.iterdir()
        if not any(path.match(pattern) for pattern in ignored)
    }
    assert {name for name in found if name[0] != "."} == {name for name in TOP if name[0] != "."}
    assert found >= TOP
