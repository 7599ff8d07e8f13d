"""How much of the variance groups and columns explain: shares by factor, and R² (Gelman et al. 2019)."""

import math
from typing import Any

import numpy as np

from flyrun.fitting.coefficients import INTERVAL
from flyrun.fitting.fitted_draws import means_at, responses_at
from flyrun.fitting.groups.grouped_table import OfTable
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.stored_effects import Effects
from flyrun.fitting.groups.terms_table import OfTerms
from flyrun.fitting.predictive_checks import Seen
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout

_DRAWS = 400
_NEW = 4_000  # targets that are drawn anew for a draw's noise, at least, where no formula has it
_SEED = 5
#: variance of the noise of a latent number, of links whose target is whether it is above 0
_LATENT = {"logit": math.pi**2 / 3.0, "probit": 1.0, "cloglog": math.pi**2 / 6.0}


def of(
    dataset: Dataset,
    posterior: OfTable | OfTerms,
    layout: Layout,
    draws: dict[str, np.ndarray],
    effects: tuple[Effects | Drawn, ...],
) -> list[dict[str, Any]]:
    """A row each: "share(g)" of each factor and "share(columns)", "icc(g)", and "R2", of draws (C, T, ...).

    share: of the linear predictor's variance over rows, where groups are as any; that of columns holds their
    curves. Of classes each has its own, of its log odds against the first.
    icc: of the variance that columns leave, noise with it: the correlation of two rows of a group; of
    normal noise on the target's scale, of two classes on that of the latent number. R2: of the expected
    target's variance over rows to that and the noise's.
    """
    seen = Seen.of(dataset, posterior, layout, draws, effects, _DRAWS)
    plain = seen.columns.var(axis=1)
    learnt = (its for its in seen.fitted.factors if not its.bar.of and not its.bar.fixed)
    by_factor = {its.bar.group: _variance(seen, its) for its in learnt}
    total = plain + sum(by_factor.values())
    rows = {f"share({name})": variance / total for name, variance in by_factor.items()}
    rows |= {"share(columns)": plain / total} if by_factor else {}
    if (noise := _noise(seen)) is not None:
        left = noise + sum(by_factor.values())
        rows |= {f"icc({name})": variance / left for name, variance in by_factor.items()}
    if layout.domain.classes < 3 and layout.task != "classes":
        rows["R2"] = _r2(seen)
    classes = (layout.target.levels or [])[1:] if layout.task == "classes" else [""]
    return [
        {"class": "", "coefficient": f"{name}[{of_class}]" if of_class else name}
        | _moments(values.reshape(len(values), -1)[:, k])
        for k, of_class in enumerate(classes)
        for name, values in rows.items()
    ]


def _moments(values: np.ndarray) -> dict[str, float]:
    """Of draws (S,)."""
    low, high = np.quantile(values, INTERVAL)
    moments = {"mean": values.mean(), "sd": values.std(ddof=1), "q03": low, "q97": high}
    return {name: float(value) for name, value in moments.items()}


def _variance(seen: Seen, its: Effects) -> np.ndarray:
    """(S,), or (S, K-1) of K classes, of what a new group's effects add to predictors, averaged over rows."""
    z = its.columns(seen.slopes(its), len(seen.rows))
    t = its.triangle.reshape(len(its.triangle), len(its.bar.classes) or 1, z.shape[1], -1)
    variance = np.einsum("ij,scik,scjk->sc", z.T @ z / len(z), t, t)
    return variance if its.bar.classes else variance[:, 0]


def _noise(seen: Seen) -> np.ndarray | float | None:
    """(S,) of a row's noise on the predictor's scale, None where it has none that is alike for all rows."""
    family = seen.fitted.family
    if family.known and family.known.inner.by_sums:
        return family.known.values["sigma"] ** 2
    if family.by_sums:
        return seen.numbers["sigma"] ** 2 if "sigma" in seen.numbers else None
    return _LATENT.get(family.link) if seen.fitted.layout.domain.classes or family.mean is None else None


def _r2(seen: Seen) -> np.ndarray:
    """(S,)."""
    fit, rng = seen.fitted, np.random.default_rng(_SEED)
    mean = means_at(fit, seen.p, seen.trials)[..., 0]
    if fit.family.by_sums and "sigma" in seen.numbers:
        noise = seen.numbers["sigma"] ** 2
    elif fit.layout.domain.classes == 2:
        noise = (mean * (1.0 - mean)).mean(axis=1)
    else:
        times = -(-_NEW // mean.shape[1])
        drawn = (responses_at(fit, seen.p, seen.trials, rng)[..., 0] for _ in range(times))
        noise = sum(((new - mean) ** 2).mean(axis=1) for new in drawn) / times
    explained = mean.var(axis=1)
    return explained / (explained + noise)
