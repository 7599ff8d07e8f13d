"""A table with groups, what `flyrun fit` and tools/groups/many_chains.py answer, and how far these are apart.

Numbers are compared by the reference's normal scores, z = Φ⁻¹(F(x)), F its distribution: of few groups the
posterior has tails of which draws do not tell the moments, nor is there an sd where there is no variance.
Where a posterior is normal these are means in sds, and ratios of sds.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

import flyrun
from flyrun.families.family import family
from flyrun.fitting.groups.stored_curves import Drawn, basis_of
from flyrun.fitting.groups.stored_effects import Effects
from flyrun.ground.diagnostics import ess
from flyrun.ground.errors import FlyrunError
from tools.groups import many_chains, prior_draws

OFF, WIDENED, ALLOWED = 0.1, 0.08, 2.0  # sds, shares of an sd; and so many standard errors of both sides
ERROR = 0.03  # of the reference's means and sds, by the spread between its chains
_LEVELS = 5  # of a term, whose effects are compared
FURTHER = {  # parameters of generated tables, as they are sampled
    "gaussian": [-0.5], "student_t": [-0.5, np.log(4.0)], "negative_binomial": [1.0], "gamma": [1.0],
    "ordinal": [-0.5, 0.3],
}  # fmt: skip


class Bar(NamedTuple):
    """A term as lme4 has it. group: a column, or two as g:s; slopes: columns."""

    group: str
    slopes: tuple[str, ...] = ()
    correlated: bool = True

    def __str__(self) -> str:
        """As a formula has it."""
        effects = " + ".join(["1", *self.slopes])
        return f"({effects} {'|' if self.correlated else '||'} {self.group})"

    def levels(self, frame: pd.DataFrame) -> pd.Series:
        """Each row's level."""
        first, *others = self.group.split(":")
        level = frame[first]
        for name in others:
            level = level + ":" + frame[name]
        return level


class Case(NamedTuple):
    """A table. columns: of the fixed part, of mean 0 and sd 1; smooths: those of them with a curve; trials: a
    column, if there is one."""

    name: str
    family: str
    frame: pd.DataFrame
    columns: tuple[str, ...]
    bars: tuple[Bar, ...]
    smooths: tuple[str, ...] = ()
    trials: str = ""

    @property
    def formula(self) -> str:
        """What `flyrun fit` is asked."""
        fixed = [f"s({name})" if name in self.smooths else name for name in self.columns]
        target = " | ".join(filter(None, ["y", self.trials]))
        return f"{target} ~ {' + '.join([*fixed, *map(str, self.bars)])}"

    def answer(self, budget: float) -> "Answer":
        """By `flyrun.fit` with its defaults and this budget in seconds."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = flyrun.fit(self.frame, self.formula, model=self.family, budget=budget)
            except FlyrunError as error:
                return Answer({}, str(error), "")
            about = fit.checks()
            group = fit.posterior["posterior"]
            numbers = {str(name): group[name].to_numpy() for name in group.data_vars}
            beta = numbers.pop("beta")
            numbers |= {str(term): beta[..., k] for k, term in enumerate(group["coefficient"].to_numpy())}
            its = [number.name for number in family(self.family).auxiliary(3, 1.0)]
            read = np.stack([numbers[name] for name in its], axis=-1) if its else np.empty((0,))
            for k, name in enumerate(its):
                numbers[name] = family(self.family).unread(read)[..., k]
            chains = len(beta)
            for effects in fit._fitted().effects:
                if isinstance(effects, Effects):
                    numbers |= dict(_of_levels(effects, chains))
                else:
                    numbers |= dict(self._of_rows(effects, chains))
            return Answer(numbers, "" if about["agreed"] else "the chains do not agree yet", about["how"])

    def _of_rows(self, drawn: Drawn, chains: int) -> Iterator[tuple[str, np.ndarray]]:
        """What a curve is in some rows, without its line."""
        for row in spread(len(self.frame)):
            values = self.frame.loc[[row], list(drawn.smooth.names)].to_numpy()
            splines = basis_of(drawn.smooth, drawn.columns).splines(values)[0]
            yield f"{drawn.smooth.group} in row {row}", _by_chain(drawn.values[0] @ splines, chains)

    def reference(self) -> "Answer":
        """By many chains, until they have settled.

        Where groups have a row each, under normal noise, by draws from the prior: chains do not settle there.
        """
        y, its = self.frame["y"], family(self.family)
        shift, unit = (float(y.mean()), float(y.std(ddof=0))) if its.link == "identity" else (0.0, 1.0)
        target = (y - shift) / unit if unit != 1.0 else y.cat.codes if y.dtype == "category" else y
        groups = [np.unique(bar.levels(self.frame), return_inverse=True) for bar in self.bars]
        terms = tuple(
            many_chains.Term(
                code, self.frame[bar.slopes[0]].to_numpy() if bar.slopes else None, bar.correlated
            )
            for bar, (_, code) in zip(self.bars, groups, strict=True)
        )
        x, classes = (
            self.frame[list(self.columns)].to_numpy(float),
            y.nunique() if its.target == "ordered" else 0,
        )
        model = many_chains.Model(self.family, x, target.to_numpy(float), terms, classes)

        def numbers(at: np.ndarray) -> dict[str, np.ndarray]:
            """By name, (C, T) each, of points (C, T, P), on the columns' scales."""
            names = [*self.columns, *(["intercept"] if its.intercept else [])]
            found = {name: unit * at[..., k] + shift * (name == "intercept") for k, name in enumerate(names)}
            for k, number in enumerate(model.numbers, len(names)):
                found[number.name] = at[..., k] + (np.log(unit) if number.name == "sigma" else 0.0)
            flat = at.reshape(-1, at.shape[-1])
            for k, (bar, (levels, _)) in enumerate(zip(self.bars, groups, strict=True)):
                sds, rho, _, u = (
                    each.reshape(*at.shape[:2], *each.shape[1:]) for each in model.effects(flat, k)
                )
                found |= effects_of(bar, levels, unit * sds, unit * u.swapaxes(2, 3), rho[..., None])
            return found

        ridge = self.family == "gaussian" and any(term.code.max() + 1 == len(y) for term in terms)
        method = prior_draws if ridge else many_chains
        found = numbers(method.settled(model, lambda at: unsettled(numbers(at))))
        return Answer(found, unsettled(found), method.__name__)


class Answer(NamedTuple):
    """numbers: (C, T) draws by name, further parameters as they are sampled; refused: why they are not to be
    trusted, or there are none."""

    numbers: dict[str, np.ndarray]
    refused: str
    how: str


def spread(levels: int) -> list[int]:
    """Places of those that are compared."""
    return [k * levels // min(levels, _LEVELS) for k in range(min(levels, _LEVELS))]


def effects_of(
    bar: Bar, levels: Sequence[str], sds: np.ndarray, u: np.ndarray, correlations: np.ndarray
) -> dict[str, np.ndarray]:
    """A term's numbers by name, (C, T) each: of sds (C, T, q), effects (C, T, J, q) of levels in order, and
    correlations (C, T, q(q−1)/2) row by row."""
    names = ["intercept", *bar.slopes]
    found = {
        f"sd({name} by {bar.group})" if j else f"sd({bar.group})": sds[..., j] for j, name in enumerate(names)
    }
    pairs = [(names[k], names[j]) for j in range(len(names)) for k in range(j)] if bar.correlated else []
    for k, (one, other) in enumerate(pairs):
        both = other if one == "intercept" else f"{one}, {other}"
        found[f"cor({both} by {bar.group})"] = correlations[..., k]
    for place in spread(len(levels)):
        found |= {f"{bar.group}[{levels[place]}] {name}": u[:, :, place, j] for j, name in enumerate(names)}
    return found


def _of_levels(effects: Effects, chains: int) -> Iterator[tuple[str, np.ndarray]]:
    order = np.argsort(effects.levels)
    for place in order[spread(len(order))]:
        for j, name in enumerate(effects.names):
            values = effects.values[place, :, j].astype(float)
            yield f"{effects.bar.group}[{effects.levels[place]}] {name}", _by_chain(values, chains)


def _by_chain(values: np.ndarray, chains: int) -> np.ndarray:
    """(C, T) of draws (S,), chain after chain."""
    length = len(values) // chains
    return values[: chains * length].reshape(chains, length)


def _own_scores(draws: np.ndarray) -> np.ndarray:
    """Normal scores of draws (C, T) by themselves."""
    return _scores(np.sort(draws, axis=None), draws)


def _between(scores: np.ndarray) -> np.ndarray:
    """Standard errors of a mean and of the log of an sd by how chains differ, autocorrelated or not."""
    each = np.stack([scores.mean(axis=1), 0.5 * (scores**2).mean(axis=1)], axis=-1)
    return each.std(axis=0, ddof=1) / np.sqrt(len(scores))


def unsettled(numbers: dict[str, np.ndarray]) -> str:
    """Which number's mean or sd chains do not tell yet; "" where there is none."""
    errors = {name: float(_between(_own_scores(draws)).max()) for name, draws in numbers.items()}
    worst = max(errors, key=lambda name: errors[name] if np.isfinite(errors[name]) else np.inf)
    return "" if errors[worst] <= ERROR else f"{worst}: standard error {errors[worst]:.3f}"


class Apart(NamedTuple):
    """off: of a mean, in sds; wide: the log of an sd; errors of both; widened: the share of an sd that is
    allowed, beside errors."""

    name: str
    off: float
    wide: float
    of_off: float
    of_wide: float
    widened: float = WIDENED

    @property
    def wrong(self) -> bool:
        """Whether it is beyond what is allowed."""
        return self.share > 1.0

    @property
    def share(self) -> float:
        """Of what is allowed."""
        off = self.off / (OFF + ALLOWED * self.of_off)
        return max(off, abs(self.wide) / (np.log1p(self.widened) + ALLOWED * self.of_wide))


def apart(ours: Answer, known: Answer) -> list[Apart]:
    """Each number of the reference. Raises KeyError where the answer lacks one."""
    found = []
    for name, theirs in known.numbers.items():
        order = np.sort(theirs.ravel())
        scores = [_scores(order, x) for x in (ours.numbers[name], theirs)]
        mean = scores[0].mean() - scores[1].mean()
        wide = np.log(scores[0].std() / scores[1].std())
        of_off, of_wide = np.hypot(errors(scores[0]), _between(scores[1]))
        found.append(Apart(name, abs(float(mean)), float(wide), float(of_off), float(of_wide)))
    return found


def _scores(order: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Φ⁻¹ of F at x (C, T), F the distribution of sorted draws (S,)."""
    below = 0.5 * (np.searchsorted(order, x, "left") + np.searchsorted(order, x, "right"))
    return ndtri((below + 0.5) / (len(order) + 1.0))


def errors(scores: np.ndarray) -> np.ndarray:
    """Standard errors of a mean and of the log of an sd, of draws (C, T)."""
    its = ess.summary(scores[..., None], wanted=("bulk", "square"))
    sd, square = scores.std(), (scores - scores.mean()) ** 2
    of_sd = 0.5 * square.std() / sd**2
    return np.array([sd / np.sqrt(max(its.bulk[0], 4.0)), of_sd / np.sqrt(max(its.square[0], 4.0))])


def kept_reference(case: Case, folder: Path | None) -> Answer:
    """The reference, from the folder where it is there, else made and kept there; without one made."""
    path = None if folder is None else folder / f"{case.name.replace(', ', '-').replace(' ', '_')}.npz"
    if path is not None and path.exists():
        with np.load(path) as kept:
            numbers = dict(kept)
        return Answer(numbers, str(numbers.pop("refused")), str(numbers.pop("how")))
    known = case.reference()
    if path is not None:
        about = {"refused": np.array(known.refused), "how": np.array(known.how)}
        np.savez(path, **{name: x.astype(np.float32) for name, x in known.numbers.items()}, **about)
    return known


def row_of(case: Case, budget: float, folder: Path | None = None) -> dict[str, Any]:
    """What is answered of a table, and how far that is off. folder: as of `kept_reference`."""
    ours = case.answer(budget)
    row = {"rows": len(case.frame), "family": case.family, "formula": case.formula, "how": ours.how}
    if not ours.numbers:
        return row | {"outcome": "refused", "why": ours.refused}
    known = kept_reference(case, folder)
    numbers = apart(ours, known)
    worst = max(numbers, key=lambda one: one.share)
    outcome = "unsettled" if known.refused else "wrong" if worst.wrong else "right"
    row |= {
        "numbers": len(numbers), "worst": worst.name, "off": max(one.off for one in numbers),
        "wide": float(np.exp(max((one.wide for one in numbers), key=abs))),
        "share": worst.share, "outcome": outcome, "marked": bool(ours.refused), "why": known.refused,
    }  # fmt: skip
    return row
