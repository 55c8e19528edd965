"""Random regular structures as source text: grids of cells, and register files."""

from amaranth.hdl import Signal

from .blocks import Target, block
from .expressions import NAMES, Term, constants, expressions, fitted, shapes

__all__ = ["declare_regular"]

GRIDS = ((2, 4), (1, 8), (8, 1), (3, 3), (3, 4), (2, 8), (4, 4), (1, 17))


def declare_regular(writer):
    """Declares what one feels like; gives functions that write the statements later."""
    return [
        declare(writer)
        for declare in (_declare_grid, _declare_file)
        if writer.maybe(4)
    ]


def _declare_grid(writer):
    """Cells of one or two registers that read their neighbours and what their row is fed."""
    rows, columns = writer.pick(*GRIDS)
    widest = writer.pick(8, 8, 16, 33, 130)
    kinds = [writer.draw(shapes(widest)) for _ in range(writer.number(1, 2))]
    fed = writer.draw(shapes(33))
    domain = writer.pick(*writer.domains)
    grids = [f"grid{index}" for index in range(len(kinds))]
    for grid, kind in zip(grids, kinds, strict=True):
        init = writer.draw(constants(eval(kind, NAMES)))
        start = f"init={init}" if writer.maybe(2) else "init=(4 * row + col) % 2"
        if kind == "signed(1)":
            start = "init=0"
        writer.do(
            f"{grid} = [[Signal({kind}, name=f'{grid}_{{row}}_{{col}}', {start}) "
            f"for col in range({columns})] for row in range({rows})]"
        )
        for text in (f"{grid}[0][-1]", f"{grid}[-1][0]"):
            writer.pool.append(writer.term(text, domain=domain.name))
    writer.do(f"feeds = [Signal({fed}, name=f'feed{{row}}') for row in range({rows})]")
    writer.drives["inputs"] += [f"feeds[{row}]" for row in range(rows)]
    return lambda: _write_grid(writer, grids, kinds, fed, domain, rows, columns)


def _write_grid(writer, grids, kinds, fed, domain, rows, columns):
    names = {}
    pool = list(writer.readable(domain))
    for grid, kind in zip(grids, kinds, strict=True):
        for part in ("own", "left", "up"):
            names[f"{part}_{grid}"] = signal = Signal(eval(kind, NAMES))
            pool += [Term(f"{part}_{grid}", signal, domain=domain.name)] * 3
    names["feed"] = Signal(eval(fed, NAMES))
    pool += [Term("feed", names["feed"])] * 3
    names["place"] = Signal(8)
    pool.append(Term("place", names["place"]))
    home = writer.module_of(domain)
    lines = ["cell = " + home]
    if writer.maybe(4):
        lines = ["cell = Module()", f"{home}.submodules[f'cell{{row}}_{{col}}'] = cell"]
    lines += ["feed, place = feeds[row], C(4 * row + col, 8)"]
    for grid in grids:
        lines += [
            f"own_{grid} = {grid}[row][col]",
            f"left_{grid} = {grid}[row][col - 1]",
            f"up_{grid} = {grid}[row - 1][col]",
        ]
    plain = not writer.maybe(4)
    for grid in grids:
        target = Target(f"own_{grid}", names)
        if plain:
            lines += _plain_cell(writer, target, domain, pool)
        else:
            made, _ = writer.draw(block([target], domain.name, "cell", tuple(pool)))
            lines += made
    writer.say(f"for row in range({rows}):\n    for col in range({columns}):")
    writer.say("\n".join(f"        {line}" for line in lines))


def _plain_cell(writer, target, domain, pool):
    """One assignment, perhaps under a condition: as in arrays that people write."""
    value = writer.draw(expressions(pool, 2)).text
    for term in (writer.pick(*pool) for _ in range(writer.number(0, 2))):
        value = f"({value} {writer.pick('+', '-', '*', '^', '&', '|')} {term.text})"
    lines = [f"cell.d.{domain.name} += {target.text}.eq({value})"]
    if writer.maybe(2):
        condition = writer.draw(expressions(pool, 1)).text
        lines = [f"with cell.If({condition}.any()):", f"    {lines[0]}"]
    return lines


def _declare_file(writer):
    """Registers that are written and read at an index."""
    count, kind = writer.pick(4, 5, 8, 16), writer.draw(shapes(130))
    domain = writer.pick(*writer.domains)
    writer.do(
        f"file = Array(Signal({kind}, name=f'file{{n}}', init=-n % 2) for n in range({count}))"
        if kind != "signed(1)"
        else f"file = Array(Signal({kind}, name=f'file{{n}}') for n in range({count}))"
    )
    index = fitted(writer.draw(expressions(writer.steady(domain), 1)), 5)
    late = index.late | {domain.name}
    writer.pool.append(writer.term(f"file[{index.text}].as_value()", late=late))
    return lambda: _write_file(writer, domain)


def _write_file(writer, domain):
    home, pool = writer.module_of(domain), writer.readable(domain)
    for _ in range(writer.number(1, 2)):
        enable, value = (writer.draw(expressions(pool, 2)) for _ in range(2))
        index = fitted(writer.draw(expressions(pool, 1)), 5)
        writer.say(f"with {home}.If({enable.text}.any()):")
        writer.say(f"    {home}.d.{domain.name} += file[{index.text}].eq({value.text})")
