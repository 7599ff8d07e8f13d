"""A claim's verdict from what is published: a record names arms, a statistic and a rule, and no verdict."""

import fnmatch
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from flyrun.experiments.compare.publish import SETTINGS
from flyrun.ground.errors import ConfigError
from tools.results import published
from tools.results.claims.estimates import BOUNDED, Estimate, difference, estimated, quotient
from tools.results.published import Row, sig

FEWEST_SEEDS = 3

_RULE = re.compile(r"(?:(\S+) <= )?(value|ratio|inverse|difference)(?: (<=|>=|<|>) (\S+))?")


@dataclass(frozen=True)
class Outcome:
    """What one arm, theorem or test says of a claim. why: what leaves it undecided, where holds is None."""

    name: str
    shown: str
    holds: bool | None
    why: str = ""
    order: float = 0.0


@dataclass(frozen=True)
class Search:
    """Where a method's settings were searched.

    experiment: a published one.  tries: settings of the arms that were tried.  by: the column whose smallest
    mean is best.  vary: the settings that differ between them.
    """

    experiment: str
    tries: Mapping[str, Any]
    by: str
    vary: list[str]

    def count(self) -> int:
        """How many settings were tried."""
        return len(select(self.experiment, self.tries))

    def fault(self, used: Mapping[str, Any]) -> str:
        """Why the arm with these settings is not at its best, inside what was tried; "" where it is."""
        tried = select(self.experiment, self.tries)
        best = min(tried, key=lambda name: published.arm(self.experiment, name)[self.by])
        for key in self.vary:
            values = sorted({settings[key] for settings in tried.values() if settings.get(key) is not None})
            value = tried[best].get(key)
            if len(values) > 1 and value in (values[0], values[-1]):
                return f"its best {key} is at the edge of what was tried"
            if used.get(key) != value:
                return f"it has {key}={used.get(key)}, its best in the search is {value}"
        return ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Arms of a published experiment that a claim covers, against others of it or a number.

    of: what it is about, where a claim has several.
    arms, against: settings that choose arms. `arm` is the name, a list offers several, texts take * and ?.
    value: a column, or a sum, product or quotient of some.
    rule: "ratio >= 10", "0.9 <= ratio <= 1.1"; of `value`, `ratio` (arm ÷ rival), `inverse`, `difference`.
    shown: what the statistic is, in words.  setting: the paper's own arm.  paper: a column, its value.
    unsettled, few_seeds: why arms that have not settled, or of fewer than three seeds, count here.
    search: arms -> where their settings were searched.  fixed: arms -> why there was nothing to search.
    figure: of the experiment, that shows it.
    """

    experiment: str
    arms: Mapping[str, Any]
    value: str
    rule: str
    shown: str = ""
    of: str = ""
    against: Mapping[str, Any] = field(default_factory=dict)
    setting: str = ""
    paper: str = ""
    unsettled: str = ""
    few_seeds: str = ""
    search: Mapping[str, Search | Mapping[str, Any]] = field(default_factory=dict)
    fixed: Mapping[str, str] = field(default_factory=dict)
    figure: str = ""

    def outcomes(self) -> list[Outcome]:
        """What each arm says, against each rival."""
        ours, rivals = select(self.experiment, self.arms), select(self.experiment, self.against)
        rivals = {name: settings for name, settings in rivals.items() if name not in ours}
        if not self.against:
            return [self._alone(name) for name in ours]
        return [self._pair(name, rival, len(rivals)) for name in ours for rival in rivals]

    def _alone(self, name: str) -> Outcome:
        estimate = estimated(self._row(name), self.value)
        return self._outcome(name, estimate, str(estimate), self._doubt(name))

    def _pair(self, name: str, rival: str, rivals: int) -> Outcome:
        ours, theirs = (estimated(self._row(one), self.value) for one in (name, rival))
        kind = self._rule()[0]
        estimate = {"ratio": quotient, "inverse": lambda a, b: quotient(b, a)}.get(kind, difference)(
            ours, theirs
        )
        shown = f"{ours}, {_code(rival)} {theirs}" if kind == "difference" else str(estimate)
        doubt = self._doubt(name) or self._doubt(rival) or self._searched(name, rival)
        return self._outcome(name if rivals == 1 else f"{name} against {rival}", estimate, shown, doubt)

    def _outcome(self, name: str, estimate: Estimate, shown: str, doubt: str) -> Outcome:
        _, low, high = self._rule()
        holds = None if doubt else estimate.within(low, high)
        why = doubt or ("not settled" if estimate.bound else "too near to tell")
        return Outcome(name, shown, holds, "" if holds is not None else why, estimate.value)

    def _doubt(self, name: str) -> str:
        """Why an arm's number decides nothing; "" where it may."""
        row = self._row(name)
        if row.seeds < FEWEST_SEEDS and not self.few_seeds:
            return f"`{name}` has {row.seeds:.0f} seeds"
        bounded = row.get("ratio_bound") and self.value in BOUNDED
        return (
            f"`{name}` had not settled" if published.moves(row) and not bounded and not self.unsettled else ""
        )

    def _searched(self, name: str, rival: str) -> str:
        """Why the rival is not known to be set as well as ours; "" where it is, or is the same method."""
        every = settings(self.experiment)
        if every[name].get("sampler.name") == every[rival].get("sampler.name"):
            return ""
        if self._row(rival).get("tries"):
            return self._own_search(name, rival)
        ours, theirs = (matching(one, self.searches) for one in (name, rival))
        if theirs is None:
            return "" if matching(rival, self.fixed) else f"the settings of `{rival}` were not searched"
        for one, search in ((name, ours), (rival, theirs)):
            if search and (fault := search.fault(every[one])):
                return f"`{one}`: {fault}"
        if ours and theirs.count() < ours.count():
            return f"`{rival}` had {theirs.count()} tries, `{name}` {ours.count()}"
        return ""

    def _own_search(self, name: str, rival: str) -> str:
        """The same of methods that search by themselves, and say in the table how."""
        rows = {one: self._row(one) for one in (name, rival)}
        for one, row in rows.items():
            if edge := row.get("best_at_edge"):
                return f"`{one}`: its best {edge} is at the edge of what was tried"
        ours, theirs = (row.get("tries") or 0.0 for row in rows.values())
        return f"`{rival}` had {theirs:.0f} tries, `{name}` {ours:.0f}" if theirs < ours else ""

    @property
    def searches(self) -> dict[str, Search]:
        """Names of arms, as patterns -> where their settings were searched."""
        return {name: one if isinstance(one, Search) else Search(**one) for name, one in self.search.items()}

    def _row(self, name: str) -> Row:
        return published.arm(self.experiment, name)

    def _rule(self) -> tuple[str, float, float]:
        match = _RULE.fullmatch(self.rule)
        if not match or not (match[1] or match[4]):
            raise ConfigError(f"rule {self.rule!r}: write one such as 'ratio >= 10' or '0.9 <= ratio <= 1.1'")
        low, high = -math.inf if match[1] is None else _number(match[1]), math.inf
        if match[3]:
            limit = _number(match[4])
            if match[3] in ("<", ">"):  # the limit itself is outside
                limit = math.nextafter(limit, -math.inf if match[3] == "<" else math.inf)
            low, high = (low, limit) if match[3] in ("<", "<=") else (limit, high)
        return match[2], low, high

    def faults(self) -> Iterator[str]:
        """What the record leaves out, a line each."""
        try:
            self._rule()
        except ConfigError as error:
            yield str(error)
        for side in ("arms", "against"):
            if (where := getattr(self, side)) and not select(self.experiment, where):
                yield f"{side}: no arm of {self.experiment} has {dict(where)}"

    def chosen(self) -> set[str]:
        """Names of the arms on both sides."""
        return {*select(self.experiment, self.arms), *select(self.experiment, self.against)}

    def evidence(self) -> str:
        """What is measured, all arms; of many the least, the paper's own and the largest."""
        outcomes = sorted(self.outcomes(), key=lambda outcome: outcome.order)
        if len(outcomes) > 6:
            own = [one for one in outcomes[1:-1] if one.name.partition(" against ")[0] == self.setting]
            outcomes = [outcomes[0], *own, outcomes[-1]]
        known = f" (paper {_paper(self)})" if self.paper else ""
        cells = "; ".join(f"{_code(one.name)} {one.shown}" for one in outcomes)
        return f"{cells}{known}"

    def links(self) -> list[str]:
        """To its report, and the figure that shows it."""
        home = f"../results/measured/{self.experiment}"
        figure = f" ([figure]({home}/figures/{self.figure}.png))" if self.figure else ""
        return [f"[{self.experiment}]({home}/report.md){figure}"]


@dataclass(frozen=True, kw_only=True)
class Theorem:
    """A row of a table that `make theorems` writes. also: further rows, shown but not judged."""

    theorem: str
    table: str = "theorems"
    of: str = ""
    shown: str = ""
    figure: str = ""

    def outcomes(self) -> list[Outcome]:
        """Whether the row holds."""
        row = published.row(self.table, claim=self.theorem)
        if "slope" in row:
            shown = f"slope {row.slope:.2f} [{row.low:.2f}, {row.high:.2f}], claimed {row.claimed:.2f}"
        else:
            shown = f"{sig(row.value, 3)}, claimed {sig(row.claimed, 2)}"
        return [Outcome(self.theorem, shown, bool(row.holds))]

    def faults(self) -> Iterator[str]:
        """Nothing is left out of one row."""
        return iter(())

    def evidence(self) -> str:
        """The measured and the claimed number."""
        return self.outcomes()[0].shown

    def links(self) -> list[str]:
        """To its figure, and the command."""
        return [
            *([f"[figure](../results/measured/{self.figure}.png)"] if self.figure else []),
            "`make theorems`",
        ]


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A test of this project that proves a claim, or that shows a counterexample."""

    test: str = ""
    counterexample: str = ""
    of: str = ""
    shown: str = ""

    @property
    def path(self) -> str:
        """FILE::TEST."""
        return self.test or self.counterexample

    def outcomes(self) -> list[Outcome]:
        """A test of the suite passes, or CI fails."""
        return [Outcome(self.path, self.shown, bool(self.test))]

    def faults(self) -> Iterator[str]:
        """Whether there is such a test."""
        file, _, name = self.path.partition("::")
        path = published.MEASURED.parents[1] / file
        text = path.read_text("utf-8") if path.is_file() else ""
        if bool(self.test) == bool(self.counterexample) or not re.search(rf"def {re.escape(name)}\(", text):
            yield f"no test {self.path}"

    def evidence(self) -> str:
        """What the test does, in words."""
        return "by a test"

    def links(self) -> list[str]:
        """The command."""
        return [f"`pytest {self.path.partition('::')[0]}`"]


Check = Comparison | Theorem | Tested


def check(told: Mapping[str, Any]) -> Check:
    """A record's check, by the keys that it has."""
    kinds = {"theorem": Theorem, "test": Tested, "counterexample": Tested}
    kind = next((kinds[key] for key in kinds if key in told), Comparison)
    try:
        return kind(**told)
    except TypeError as error:
        raise ConfigError(f"{dict(told)}: {error}") from error


def verdict(checks: list[Check]) -> str:
    """Holds, does not, in part, or not decided: by all that the checks say."""
    parts = [(one.of if len(checks) > 1 else "", one.outcomes()) for one in checks]
    every = [outcome for _, outcomes in parts for outcome in outcomes]
    kinds = {outcome.holds for outcome in every}
    if len(kinds) == 1 and None not in kinds:
        return word(every[0].holds)
    if kinds == {None}:
        return f"not decided: {_reasons(every)}"
    return "in part: " + "; ".join(_groups(parts))


def word(holds: bool | None) -> str:
    """Of what is decided."""
    return "holds" if holds else "**does not**"


def _groups(parts: list[tuple[str, list[Outcome]]]) -> Iterator[str]:
    """What holds, what does not, what is not decided: a check by its name, or its arms where they differ."""
    named: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for label, outcomes in parts:
        if label and len({one.holds for one in outcomes}) == 1:
            named[outcomes[0].holds].append(label)
            continue
        for holds, names in named.items():
            arms = [_code(one.name) for one in outcomes if one.holds is holds]
            text = ", ".join(arms) if len(arms) <= 3 else f"{len(arms)} of {len(outcomes)} arms"
            names += [f"{label} ({text})" if label else text] if arms else []
    words = {True: "holds for", False: "does not for", None: "not decided for"}
    for holds, names in named.items():
        if names:
            yield f"{words[holds]} {('; ' if ',' in ''.join(names) else ', ').join(names)}"
    undecided = [one for _, outcomes in parts for one in outcomes if one.holds is None]
    if undecided:
        yield f"because {_reasons(undecided)}"


def _reasons(outcomes: list[Outcome]) -> str:
    return ", ".join(dict.fromkeys(one.why for one in outcomes))


def _code(name: str) -> str:
    return " against ".join(f"`{part}`" for part in name.split(" against "))


def _paper(comparison: Comparison) -> str:
    """The paper's own values of the arms, and of what they are compared with where the rule is of ratios."""
    ours = [
        published.arm(comparison.experiment, name) for name in select(comparison.experiment, comparison.arms)
    ]
    kind = comparison._rule()[0]
    if kind in ("value", "difference"):
        values = [row[comparison.paper] for row in ours]
    else:
        rivals = [
            published.arm(comparison.experiment, name)
            for name in select(comparison.experiment, comparison.against)
        ]
        known = [row[comparison.paper] for row in rivals if isinstance(row.get(comparison.paper), float)]
        values = [
            row[comparison.paper] / known[0] for row in ours if isinstance(row.get(comparison.paper), float)
        ]
        values = [1 / value for value in values] if kind == "inverse" else values
    return ", ".join(sig(value, 2) for value in values if isinstance(value, float))


@cache
def settings(experiment: str) -> dict[str, dict[str, Any]]:
    """A published run's arms -> what each was set to, its name as `arm`."""
    path = published.MEASURED / experiment / SETTINGS
    stored = json.loads(path.read_text("utf-8"))
    return {name: stored["all"] | own | {"arm": name} for name, own in stored["arms"].items()}


def select(experiment: str, where: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The arms of a published run with these settings; {} for no settings."""
    if not where:
        return {}
    return {
        name: own
        for name, own in settings(experiment).items()
        if all(_fits(own.get(key), wanted) for key, wanted in where.items())
    }


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_fits(value, one) for one in wanted)
    if isinstance(wanted, str):
        return isinstance(value, str) and fnmatch.fnmatchcase(value, wanted)
    return bool(value == wanted)


def matching(name: str, patterns: Mapping[str, Any]) -> Any:
    """What the first pattern that fits a name leads to; None where none does."""
    return next((value for pattern, value in patterns.items() if fnmatch.fnmatchcase(name, pattern)), None)


def _number(text: str) -> float:
    top, _, below = text.partition("/")
    return float(top) / float(below or 1)


def left_out(checks: Iterable[Check]) -> Iterator[tuple[str, str]]:
    """(experiment, arm) of each arm whose method the checks compare and which none of them covers."""
    comparisons = [one for one in checks if isinstance(one, Comparison)]
    for experiment in dict.fromkeys(one.experiment for one in comparisons):
        chosen = {name for one in comparisons if one.experiment == experiment for name in one.chosen()}
        every = settings(experiment)
        methods = {every[name].get("sampler.name") for name in chosen}
        yield from (
            (experiment, name)
            for name, own in every.items()
            if own.get("sampler.name") in methods and name not in chosen
        )
