"""What the README shows works as it stands."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(capsys):
    code = re.search(r"<!-- example -->\n```python\n(.*?)```", README, re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("[27 27 27 27 27 27 27] ")


def test_the_example_of_signals_and_graphs_runs(capsys):
    code = re.search(r"<!-- signals -->\n```python\n(.*?)```", README, re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})
    met, took, sums, deadlock = capsys.readouterr().out.splitlines()
    assert met == "both have met"
    assert re.fullmatch(r"took \d+ cycles", took)
    assert sums == "4 8 16 from pair"
    assert "which stream 0 changes in task" in deadlock
    assert "stream 0 → stream 0 wait for each other" in deadlock


def test_every_path_in_the_map_of_the_code_exists():
    block = re.search(r"## The map of the code\n\n```\n(.*?)```", README, re.DOTALL)[1]
    folder = ""
    for line in block.splitlines():
        words = re.findall(r"[\w/.]+(?:/|\.py)(?=[,;:\s]|$)", line)
        if not line.startswith(" "):
            folder = words[0]
            assert (ROOT / folder).is_dir(), folder
            words = words[1:]
        for word in words:
            places = (ROOT / folder / word, ROOT / word)
            assert any(place.exists() for place in places), f"{folder}{word}"
