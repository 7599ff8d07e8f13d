"""A finished fit read again: its table, its posterior, and the draws of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import flyrun.data
from flyrun import netcdf
from flyrun.config.dataset import Table
from flyrun.config.schema import build
from flyrun.data.dataset import Dataset
from flyrun.data.table.layout import Layout
from flyrun.errors import ConfigError, DataError
from flyrun.fitting import bars, coefficients, priors, table_posterior
from flyrun.fitting.groups import grouped_table
from flyrun.fitting.read_table import ReadTable
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan import table_files
from flyrun.models.family import family
from flyrun.report import summaries
from flyrun.runner.store import POSTERIOR

if TYPE_CHECKING:
    import pandas as pd


class Finished(NamedTuple):
    """A fit. x, (S, P), are draws; log_weight, (S,), the logs of their weights, −∞ of those of none.

    order: (N,) which of the table's rows those of the posterior are, where they stand in another order.
    """

    dataset: Dataset
    layout: Layout
    posterior: Posterior
    x: np.ndarray
    log_weight: np.ndarray
    order: np.ndarray | None = None


def about(folder: Path) -> dict[str, Any]:
    """What a fit's fit.json says. Raises ConfigError where there is none."""
    found = summaries.read_fit(folder)
    if not found:
        raise ConfigError(f"{folder}: holds no fit; name the folder that `flyrun fit` wrote")
    return found


def read(folder: Path, **table: Any) -> Finished:
    """Read a fit's table again; table: settings of it that differ, as where the file is now.

    Raises DataError where the table is not what it was.
    """
    told = about(folder)
    settings, config = told["settings"], _table(folder, table)
    dataset = flyrun.data.load(config)
    layout = Layout.from_dict(dataset.info["layout"])
    own = [priors.typed(one) for one in settings["prior"]]
    prior = priors.priors(layout, own, settings["prior_scale"], intercept=layout.task != "ordered")
    posterior = table_posterior.posterior_of(dataset, family(settings["model"]), prior)
    groups, order = tuple(bars.read(settings.get("groups", ()))), None
    if len(groups) > 1:
        raise ConfigError(
            f"{folder}: was fitted with {groups[0]} and {groups[1]}, and rows of two groups are not left out"
        )
    if groups:
        grouped = grouped_table.posterior_of(ReadTable(config, dataset, layout), posterior, groups)
        grouped.nodes, grouped.steps = told["groups"][0]["nodes"]
        posterior, order = grouped, grouped.order
    x, log_weight = _draws(folder, posterior, layout)
    if groups and not posterior.family.by_sums:
        weight = np.exp(log_weight - log_weight.max())
        grouped.settle(weight @ x / weight.sum())
    return Finished(dataset, layout, posterior, x, log_weight, order)


def rows(folder: Path, **table: Any) -> "pd.DataFrame":
    """What a fit's model reads of the rows that it was fitted to. table and errors: as of `read`."""
    import pandas as pd  # late: half a second

    from flyrun.data.table import new_rows, pieces  # late: pandas

    config = _table(folder, table)
    layout = Layout.from_dict(about(folder)["layout"])
    # what decided which rows were used, and how often, is read too
    beside = [layout.target.name, *(column.name for column in layout.beside.values())]
    group = [bar.group for bar in bars.read(about(folder)["settings"].get("groups", ()))]
    names = list(dict.fromkeys([*new_rows.needed(layout), *beside, *group]))
    found = pd.concat(pieces.pieces(Path(str(config.path)), names, config, layout.text | set(group)))
    found = found.head(config.limit) if config.limit else found
    return found.dropna() if config.missing == "drop" else found


def _table(folder: Path, table: dict[str, Any]) -> Table:
    """The table of a fit, as its file is. DataError where that has changed, ConfigError for many files."""
    settings = about(folder)["settings"]["dataset"] | table
    if table_files.several(settings["path"]):
        raise ConfigError(
            f"{folder}: was fitted by a scan of {settings['path']}, whose rows are not read again; "
            "fit one file of them for this"
        )
    config: Any = build("dataset", {"name": "table", **settings, "sha256": None})
    if flyrun.data.fingerprint(config) != settings["sha256"]:
        raise DataError(f"{config.path}: has changed since {folder} was fitted to it; fit it again")
    return config


def _draws(folder: Path, posterior: Posterior, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """The draws, weighted where there are such, as the posterior has them."""
    with netcdf.read(folder / POSTERIOR) as file:
        group = file["weighted"] if "weighted" in file else file["posterior"]
        beta = group["beta"][...]
        aux = [group[one.name][...] for one in posterior.auxiliary]
        others = {one["term"]: group[one["term"]][...].ravel() for one in posterior.other_priors()}
        if "weighted" in file:
            log_weight = group["log_weight"][...]
            if "sign" in group:
                log_weight = np.where(group["sign"][...] > 0, log_weight, -np.inf)
        else:  # chains
            beta = beta.reshape(-1, *beta.shape[2:])
            aux = [values.reshape(-1) for values in aux]
            log_weight = np.zeros(len(beta))
    x = to_sampled(posterior, layout, beta, np.stack(aux, axis=-1) if aux else None)
    if isinstance(posterior, grouped_table.OfTable):
        x = np.concatenate([x, posterior.h_of(others)], axis=1)
    return x, log_weight


def to_sampled(posterior: Posterior, layout: Layout, beta: np.ndarray, aux: np.ndarray | None) -> np.ndarray:
    """x, (S, P), of coefficients on the columns' own scales, (S, ..., D), and auxiliary numbers, (S, A)."""
    one, scales = posterior.family, coefficients.Scales.of(layout)
    if one.intercept:
        theta = scales.undo(beta)
    else:  # cutpoints stand in for it, and took up the columns' means
        shift = scales.shift - beta @ scales.means[:-1]
        theta = beta / scales.factor[:-1]
        aux = None if aux is None else aux + shift[:, None]
    if one.contrasts is not None:
        theta = np.linalg.solve(one.contrasts(posterior.levels), theta)
    parts = [theta.reshape(len(theta), -1)]
    if aux is not None:
        if one.link == "identity":
            aux[:, 0] /= layout.target.sd
        parts.append(one.unread(aux))
    return np.concatenate(parts, axis=1)
