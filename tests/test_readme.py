"""What the README shows works as it stands."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_example_runs(capsys):
    code = re.search(r"<!-- example -->\n```python\n(.*?)```", README, re.DOTALL)[1]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("[27 27 27 27 27 27 27] ")


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
