# SPDX-License-Identifier: Apache-2.0
"""From a regular expression to a table of states. Used when a validator is generated, never at run time."""

from __future__ import annotations

from dataclasses import dataclass, field
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any


@dataclass(frozen=True)
class Table:
    """A deterministic automaton: state 0 starts, -1 refuses.

    classes maps a character to its column; a character that is not there refuses.
    rows[state][column] is the next state; accepting holds the states that accept.
    """

    classes: dict[str, int]
    rows: tuple[tuple[int, ...], ...]
    accepting: tuple[int, ...]


@dataclass
class _Graph:
    """An automaton with free moves, as it is built."""

    free: list[set[int]] = field(default_factory=list)
    moves: list[list[tuple[frozenset[str], int]]] = field(default_factory=list)

    def state(self) -> int:
        self.free.append(set())
        self.moves.append([])
        return len(self.free) - 1


def compile_pattern(pattern: str) -> Table:
    r"""Translate an anchored pattern of literals, sets, groups, alternatives and repeats.

    It must begin with ^ and end with (?![\s\S]). Raises ValueError for anything that is not supported.
    """
    graph = _Graph()
    start = graph.state()
    end = _sequence(graph, _body(pattern), start)
    return _minimise(*_determinise(graph, start, end))


def _body(pattern: str) -> list[Any]:
    items = list(_parser.parse(pattern))
    begins = items and items[0] == (op.AT, op.AT_BEGINNING)
    if not begins or not pattern.endswith("(?![\\s\\S])"):
        raise ValueError(f"pattern is not anchored at both ends: {pattern}")
    return items[1:-1]


def _sequence(graph: _Graph, items: Any, state: int) -> int:
    for kind, detail in items:
        state = _item(graph, kind, detail, state)
    return state


def _item(graph: _Graph, kind: Any, detail: Any, state: int) -> int:
    if kind is op.LITERAL:
        return _move(graph, frozenset(chr(detail)), state)
    if kind is op.IN:
        return _move(graph, _members(detail), state)
    if kind is op.SUBPATTERN and not detail[1] and not detail[2]:
        return _sequence(graph, detail[3], state)
    if kind is op.BRANCH:
        end = graph.state()
        for branch in detail[1]:
            graph.free[_sequence(graph, branch, state)].add(end)
        return end
    if kind is op.MAX_REPEAT:
        least, most, items = detail
        return _repeat(graph, (least, most), items, state)
    raise ValueError(f"not supported in a pattern: {kind}")


def _move(graph: _Graph, characters: frozenset[str], state: int) -> int:
    after = graph.state()
    graph.moves[state].append((characters, after))
    return after


def _members(items: Any) -> frozenset[str]:
    found: set[str] = set()
    for kind, detail in items:
        if kind is op.LITERAL:
            found.add(chr(detail))
        elif kind is op.RANGE:
            found.update(map(chr, range(detail[0], detail[1] + 1)))
        else:
            raise ValueError(f"not supported in a set: {kind}")
    return frozenset(found)


def _repeat(graph: _Graph, bounds: tuple[int, Any], items: Any, state: int) -> int:
    least, most = bounds
    for _ in range(least):
        state = _sequence(graph, items, state)
    if most is op.MAXREPEAT:
        loop = graph.state()
        graph.free[state].add(loop)
        graph.free[_sequence(graph, items, loop)].add(loop)
        return loop
    end = graph.state()
    graph.free[state].add(end)
    for _ in range(most - least):
        state = _sequence(graph, items, state)
        graph.free[state].add(end)
    return end


def _closure(graph: _Graph, states: frozenset[int]) -> frozenset[int]:
    found, waiting = set(states), list(states)
    while waiting:
        fresh = graph.free[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return frozenset(found)


def _determinise(graph: _Graph, start: int, end: int) -> tuple[list[dict[str, int]], list[bool]]:
    first = _closure(graph, frozenset([start]))
    numbers, rows, accepting = {first: 0}, [], []
    waiting = [first]
    for states in waiting:
        targets: dict[str, set[int]] = {}
        for characters, after in (move for state in states for move in graph.moves[state]):
            for character in characters:
                targets.setdefault(character, set()).add(after)
        row = {}
        for character in sorted(targets):
            after_all = _closure(graph, frozenset(targets[character]))
            if after_all not in numbers:
                numbers[after_all] = len(numbers)
                waiting.append(after_all)
            row[character] = numbers[after_all]
        rows.append(row)
        accepting.append(end in states)
    return rows, accepting


def _next_blocks(block: list[Any], row: dict[str, int], alphabet: list[str]) -> list[Any]:
    return [block[row[character]] if character in row else None for character in alphabet]


def _minimise(rows: list[dict[str, int]], accepting: list[bool]) -> Table:
    alphabet = sorted({character for row in rows for character in row})
    block: list[Any] = list(accepting)
    while True:
        signs = [(block[i], *_next_blocks(block, row, alphabet)) for i, row in enumerate(rows)]
        order = list(dict.fromkeys(signs))
        finer = [order.index(sign) for sign in signs]
        if len(set(finer)) == len(set(block)):
            break
        block = finer
    firsts = [finer.index(number) for number in range(len(order))]
    table = [[finer[rows[i][c]] if c in rows[i] else -1 for c in alphabet] for i in firsts]
    columns = [tuple(row[i] for row in table) for i in range(len(alphabet))]
    distinct = list(dict.fromkeys(columns))
    classes = {character: distinct.index(column) for character, column in zip(alphabet, columns, strict=True)}
    merged = tuple(tuple(column[i] for column in distinct) for i in range(len(table)))
    return Table(classes, merged, tuple(number for number, i in enumerate(firsts) if accepting[i]))
