"""One scan, a posterior for each level of a column: every level has its own pilot, centres and rows that
travel, and all of them look at a row group together.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flyrun.families.family import Family
from flyrun.fitting.level_fits import in_order
from flyrun.fitting.scan import column_checks, text_levels
from flyrun.fitting.scan.joined_groups import Block
from flyrun.fitting.scan.one_look import MISSING, MOST, Each, LevelLook, Levels, Split, too_many
from flyrun.fitting.scan.pilot import Inputs, Own
from flyrun.fitting.scan.pilot_rows import Sample
from flyrun.fitting.scan.row_groups import tree
from flyrun.fitting.scan.stage_ranges import stages_of
from flyrun.fitting.scan.stages import Found, Scan, Steps
from flyrun.ground.errors import ConfigError, DataError, FlyrunError
from flyrun.ground.schema import quoted
from flyrun.tables.columns import ManyLevelsError

_WHOLE, _ALL_WHOLE = 10_000, 2_000_000  # rows of a level up to which all come here; of all such levels


@dataclass
class OneLevel:
    """A level: its number, its rows, and what was found of it, or why nothing was."""

    code: int
    rows: int
    scan: Scan
    found: Found | FlyrunError | None = None


class LevelScans:
    """One table under one model, a posterior a level of a column. levels: by name; lost: rows without one."""

    def __init__(self, inputs: Inputs, seed: int):
        request, shards, columns, table, mapper, _ = inputs
        self.by, self.mapper, self.shards, self.table = str(request.by), mapper, shards, table
        self.read, self.target = columns, request.target
        texts = text_levels.named(shards, (*columns, request.target))
        text_levels.refuse_references(shards, texts, table)
        scan = partial(Scan, inputs._replace(say=lambda line: None))
        self.groups, self.blocks = (every := scan(seed)).groups, every.blocks
        held: Levels = tree(mapper(LevelLook(self.by, texts), self.groups, f"levels of {self.by}"))
        read = {self.by, *texts} - {name for name, _ in shards.files[0].named}
        self.rows_read = shards.rows * len(read) // len(shards.kinds)
        whole = held.column == ""
        counts = dict(zip(held.level[whole].tolist(), held.rows[whole].tolist(), strict=True))
        lost = held.rows[held.value == MISSING][whole[held.value == MISSING]]
        self.lost = int(lost.sum())
        names = sorted(held.level[whole & (held.value != MISSING)].tolist(), key=in_order)
        if len(names) > MOST:
            raise too_many(shards.given, self.by)
        if self.lost and table.missing != "drop":
            raise DataError(
                f"{shards.given}: {self.lost:,} rows lack a value of {self.by}; leave out, and count, such "
                "rows with --missing drop"
            )
        if len(names) < 2:
            raise ConfigError(f"--by {quoted(self.by)}: has one value alone in all rows; leave it out")
        in_all = text_levels.Texts(*held[1:])
        self.texts = tuple((name, tuple(in_all.of(name))) for name in texts)
        self.names, self.levels = tuple(names), dict[str, OneLevel]()
        for k, name in enumerate(names):
            rows, given = held.level == name, f"{shards.given}, {self.by}={name}"
            values = text_levels.Texts(held.column[rows], held.value[rows], held.rows[rows])
            level_scan = scan(seed + 1 + k, Own(counts[name], given, len(names)))
            level = self.levels[name] = OneLevel(k, counts[name], level_scan)
            try:
                level.scan.levels = text_levels.ordered(values, texts, table, given, counts[name])
            except ManyLevelsError as error:
                level.found = DataError(error.plain)  # a formula is not for levels
            except FlyrunError as error:
                level.found = error
        self.few = min(_WHOLE, _ALL_WHOLE // len(names))

    @property
    def open(self) -> dict[str, OneLevel]:
        """Levels whose scan is to come."""
        return {name: level for name, level in self.levels.items() if level.found is None}

    def pilot(self) -> np.ndarray:
        """Targets (n,) of some rows, in which every class of every level of many rows is met often enough."""
        looks = {name: level.scan.pilot_look() for name, level in self.open.items()}
        if not looks:
            return np.empty(0)
        n, done = len(self.blocks), 0
        ahead, samples = self.levels[self.names[0]].scan.first_of_pilot, dict[str, list[Sample]]()
        # so many rows as have those that each level takes of a row group, where levels are as large
        most = 2 * sum(look.most for look in looks.values())
        while True:
            blocks = [[block] for block in self.blocks[done:ahead]]
            for name, more in self._each(looks, blocks, "pilot", most).items():
                samples[name] = samples.get(name, []) + more
            self.samples = {name: tree(list(parts)) for name, parts in samples.items()}
            done = ahead
            if done == n or all(
                name in self.samples and level.scan.met(self.samples[name].y)
                for name, level in self.open.items()
                if level.rows > self.few
            ):
                break
            ahead = min(n, 2 * done)
        pilots = [*self.samples.values()]
        column_checks.refuse_doubtful(self.shards, self.table, self.read, pilots, self.target)
        for name, sample in self.samples.items():
            weight = self.levels[name].rows / max(float((1.0 / sample.chance).sum()), 1e-300)
            self.samples[name] = sample._replace(chance=np.minimum(sample.chance / weight, 1.0))
        return np.concatenate([sample.y for sample in self.samples.values()])

    def run(self, task: str, family: Family) -> dict[str, Found | FlyrunError]:
        """What was found of each level, or why nothing was."""
        many = {name: level.scan for name, level in self.open.items() if level.rows > self.few}
        seen = [scan.seen(self.samples[name]) for name, scan in many.items() if name in self.samples]
        stages = stages_of(len(self.groups), min(seen) if seen and not family.by_sums else 1.0)
        steps = dict[str, Steps]()
        for name, level in self.open.items():
            if name in many:
                try:
                    sample = self.samples[name]
                    steps[name] = level.scan.steps(
                        sample, level.scan.encoding(sample, task, family), family, stages
                    )
                except FlyrunError as error:
                    level.found = error
                except KeyError:
                    level.found = DataError(f"{level.scan.given}: every row looked at lacks a value")
            else:
                steps[name] = level.scan.whole(task, family, stages)
        asked = self._asked(steps, dict.fromkeys(steps, None))
        while asked:
            (begun, end), text = next(iter(asked.values()))[1:]
            looks = {name: look for name, (look, *_) in asked.items()}
            parts = self._each(looks, self.groups[begun:end], text)
            asked = self._asked(steps, {name: parts.get(name, []) for name in looks})
        return {name: level.found for name, level in self.levels.items() if level.found is not None}

    def _asked(self, steps: dict[str, Steps], parts: dict[str, Any]) -> dict[str, Any]:
        """What levels ask for next, of those that are not done with these parts."""
        asked = {}
        for name, level_parts in parts.items():
            try:
                asked[name] = steps[name].send(level_parts)
            except StopIteration as stop:
                self.levels[name].found = stop.value
            except FlyrunError as error:
                self.levels[name].found = error
        return asked

    def _each(
        self, looks: dict[str, Any], groups: list[list[Block]], text: str, most: int = 0
    ) -> dict[str, list[Any]]:
        """Parts of each level by its own look, of the groups where it has rows."""
        level_looks = tuple(
            (self.levels[name].code, look, self.levels[name].scan.levels) for name, look in looks.items()
        )
        split = Split(self.by, self.names, self.texts, level_looks, most)
        parts: list[Each] = self.mapper(split, groups, text)
        self.rows_read += sum(part.read for part in parts)
        by_level = dict[str, list[Any]]()
        for part in parts:
            for code, level_part in zip(part.codes.tolist(), part.found, strict=True):
                by_level.setdefault(self.names[code], []).append(level_part)
        return by_level
