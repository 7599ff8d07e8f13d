"""What a fit says of the rows that it was fitted to: are they as new ones drawn from it (Rubin 1984)?

Of some rows and draws alone: figures tell no more of many.
"""

from typing import Any, NamedTuple

import numpy as np

from flyrun.fitting import fitted_draws
from flyrun.fitting.groups.curves import Curves
from flyrun.fitting.groups.stored_curves import Drawn
from flyrun.fitting.groups.stored_effects import Effects
from flyrun.fitting.rows_posterior import Posterior
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout

_DRAWS = 100
_ROWS = 10_000
_SEED = 4
_ENDS = (0.05, 0.95)  # of a 90 % interval over draws
_BINS, _BIN_ROWS = 10, 15  # of a calibration, at most, and rows of each, at least
_BARS = 30  # of a distribution
_MOST = 1e300  # means and targets beyond are shown there: sums of rows are numbers, as are figures' axes
_TAIL = 0.005  # of the targets that the distribution leaves out, at each end


class Seen(NamedTuple):
    """Some of a fit's rows (n,), and what some of its draws say of them.

    columns: the linear predictor of columns, their curves and categories of many levels, (S, n, ...);
    p: predictors, as of fitted_draws.means_at; numbers: draws of others, (S,) by name, of a fit with groups.
    """

    fitted: fitted_draws.Fitted
    rows: np.ndarray
    features: np.ndarray
    columns: np.ndarray
    p: list[np.ndarray]
    trials: np.ndarray | float
    numbers: dict[str, np.ndarray]

    @staticmethod
    def of(
        dataset: Dataset,
        posterior: Posterior,
        layout: Layout,
        draws: dict[str, np.ndarray],
        effects: tuple[Effects | Drawn, ...],
        count: int,
        rng: np.random.Generator | None = None,
    ) -> "Seen":
        """Of draws by name, (C, T, ...), so many at most."""
        model_family = posterior.family.in_units(1.0)
        settings = {"model": model_family.name}
        fitted = fitted_draws.of_draws(layout, model_family.link, model_family, settings, draws, effects)
        fitted = fitted.thinned(min(count, len(fitted.beta)))
        rows = _rows(dataset, rng or np.random.default_rng(_SEED))
        sign = dataset.target[rows, None] if dataset.folded else 1.0
        features = _raw(dataset.features, layout, rows, sign)
        columns = np.einsum("s...d,nd->sn...", fitted.beta, features[:, : fitted.beta.shape[-1]])
        offset = 0.0 if dataset.offset is None else dataset.offset[rows] * layout.target.sd
        eta = columns + (np.reshape(offset, (-1, 1)) if columns.ndim == 3 else offset)
        which = fitted.effects[0].draws if effects else np.arange(len(fitted.beta))
        flat = {name: values.reshape(-1) for name, values in draws.items() if values.ndim == 2}
        numbers = {name: values[which] for name, values in flat.items()} if effects else {}
        trials = 1.0 if dataset.trials is None else dataset.trials[rows]
        by_row, raw = dict[str, np.ndarray](), dict[str, np.ndarray]()
        for k, (number, its) in enumerate(zip(posterior.auxiliary, posterior.rows.designs, strict=False)):
            if its is not None:
                by_row[number.name] = fitted.aux[:, k, None] + its.take(rows).offset  # of rows alone
            if its is not None and (part := layout.parameters.get(number.name)) is not None:
                of_it = raw[number.name] = _raw(its.features, part, rows, 1.0)
                by_row[number.name] = fitted.columns[number.name] @ of_it.T + its.take(rows).offset
        curves = [its for its in getattr(posterior, "factors", ()) if isinstance(its, Curves)]
        drawn = [its for its in fitted.effects if isinstance(its, Drawn)]
        for curve, values in zip(curves, drawn, strict=True):
            added = curve.added(values, rows, layout.target.sd)
            if name := values.bar.of:
                by_row[name] = by_row[name] + added
            else:
                columns, eta = columns + added, eta + added
        seen = Seen(fitted, rows, features, columns, [eta], trials, numbers)
        for each, code in zip(fitted.factors, posterior.codes() if effects else (), strict=True):
            levels = [each.levels[k] for k in code[rows]]
            added = each.of(levels, seen.slopes(each, raw.get(each.bar.of)))
            if name := each.bar.of:
                by_row[name] = by_row[name] + added
            else:
                eta = eta + added
                columns = columns + added if each.bar.fixed else columns
        return seen._replace(columns=columns, p=[eta, *fitted_draws.others_at(fitted, by_row)])

    def slopes(self, effects: Effects, features: np.ndarray | None = None) -> list[np.ndarray]:
        """The columns of a factor's slopes, (n,) each. features: of its formula, where it is another."""
        layout = self.fitted.layout
        names = layout.parameters.get(effects.bar.of, layout).names
        features = self.features if features is None else features
        return [features[:, names.index(name)] for name in effects.bar.slopes]


def of(
    dataset: Dataset,
    posterior: Posterior,
    layout: Layout,
    draws: dict[str, np.ndarray],
    effects: tuple[Effects | Drawn, ...] = (),
) -> dict[str, Any]:
    """Calibration and distribution, as plain values, of draws of even weight by name, (C, T, ...).

    effects: of groups and smooths.

    calibration: by class (of two the second alone, of numbers ""), bins of rows alike in what is predicted:
    means predicted and observed, and the 90 % interval of observed ones of new rows, (B,) each.
    distribution, of numbers: edges (B + 1,), the share of rows observed between them, of new ones its mean
    and 90 % interval, (B,) each.
    """
    rng = np.random.default_rng(_SEED)
    seen = Seen.of(dataset, posterior, layout, draws, effects, _DRAWS, rng)
    fitted, p, trials, rows = seen.fitted, seen.p, seen.trials, seen.rows
    mean = np.minimum(fitted_draws.means_at(fitted, p, trials), _MOST)
    new = np.minimum(fitted_draws.responses_at(fitted, p, trials, rng), _MOST)
    observed = _observed(dataset, layout, rows, mean.shape[-1])
    named = fitted.levels or (layout.target.levels or [""])[1:] or [""]
    several = zip(named, *(np.moveaxis(values, -1, 0) for values in (mean, new, observed)), strict=True)
    each = np.broadcast_to(trials, len(rows)).astype(np.float64)
    checks: dict[str, Any] = {"rows": len(rows), "draws": len(fitted.beta)}
    checks["calibration"] = [
        {"class": name, **_calibrated(expected, again, there, each)}
        for name, expected, again, there in several
    ]
    if not layout.domain.has_chance:
        checks["distribution"] = _distribution(new[..., 0], observed[:, 0], layout.domain.whole)
    return checks


def _rows(dataset: Dataset, rng: np.random.Generator) -> np.ndarray:
    """Some rows (n,), in order, each as often as it is there; of many classes fewer."""
    counts = np.ones(len(dataset.target)) if dataset.weights is None else dataset.weights
    if dataset.trials is not None:
        counts = counts * (dataset.trials > 0)
    last = np.cumsum(counts.astype(np.int64))
    total, most = int(last[-1]), 2 * _ROWS // max(dataset.n_classes, 2)
    chosen = np.arange(total) if total <= most else np.sort(rng.choice(total, most, replace=False))
    return np.searchsorted(last, chosen, side="right")


def _raw(features: np.ndarray, layout: Layout, rows: np.ndarray, sign: np.ndarray | float) -> np.ndarray:
    """Features of some rows on the columns' own scales, (n, D), ones last, of all (N, D)."""
    features = features[rows].astype(np.float64) * sign
    columns = [column for column in layout.features for _ in column.encoded]
    for d, column in enumerate(columns):
        if column.levels is None:
            features[:, d] = features[:, d] * column.sd + column.mean
    features[:, -1] = 1.0
    return features


def _observed(dataset: Dataset, layout: Layout, rows: np.ndarray, classes: int) -> np.ndarray:
    """Targets as people read them, (n, 1), or whether they are of each class, (n, K)."""
    target = dataset.target[rows]
    if layout.domain.classes > 2:
        return (target[:, None] == np.arange(classes)).astype(np.float64)
    if layout.domain.classes == 2:
        return (target[:, None] > 0.0).astype(np.float64)
    return (target * layout.target.sd + layout.target.mean)[:, None]


def _calibrated(
    mean: np.ndarray, new: np.ndarray, seen: np.ndarray, trials: np.ndarray
) -> dict[str, list[float]]:
    """Of rows in bins: what is predicted, (S, n), drawn anew, (S, n), and observed, (n,), a trial."""
    predicted = mean.mean(axis=0)
    bins = int(np.clip(len(seen) // _BIN_ROWS, 1, _BINS))
    inner = np.unique(np.quantile(predicted / trials, np.linspace(0, 1, bins + 1)[1:-1]))
    of_row = np.searchsorted(inner, predicted / trials, side="right")
    of_row = np.unique(of_row, return_inverse=True)[1]  # bins without a row left out
    size = np.bincount(of_row, trials)
    low, high = np.quantile([np.bincount(of_row, drawn) / size for drawn in new], _ENDS, axis=0)
    rates = {"predicted": np.bincount(of_row, predicted) / size, "observed": np.bincount(of_row, seen) / size}
    return {name: values.tolist() for name, values in (rates | {"low": low, "high": high}).items()}


def _distribution(new: np.ndarray, seen: np.ndarray, counts: bool) -> dict[str, Any]:
    """Shares of rows by target, observed, (n,), and drawn anew, (S, n)."""
    low, high = np.quantile(np.concatenate([seen, new[0]]), [_TAIL, 1.0 - _TAIL])
    if counts:
        step = max(1.0, float(np.ceil((high - low + 1.0) / _BARS)))
        edges = np.arange(np.floor(low), high + 1.0 + step, step) - 0.5
    else:
        edges = np.linspace(low, max(high, low + 1e-12), _BARS + 1)
    shares = np.array([np.histogram(drawn, edges)[0] / len(drawn) for drawn in new])
    ends = np.quantile(shares, _ENDS, axis=0)
    bars = {"edges": edges, "observed": np.histogram(seen, edges)[0] / len(seen), "mean": shares.mean(axis=0)}
    bars |= {"low": ends[0], "high": ends[1]}
    return {name: values.tolist() for name, values in bars.items()}
