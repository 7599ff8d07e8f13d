"""A finished fit read again: its table, its posterior, and the draws of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from flyrun.fitting import bars, priors, question, stored
from flyrun.fitting.column_scales import to_sampled
from flyrun.fitting.groups import grouped_table, stored_effects
from flyrun.fitting.groups.terms_table import Factor, OfTerms
from flyrun.fitting.request import Request
from flyrun.fitting.rows_posterior import Posterior
from flyrun.fitting.scan import table_files
from flyrun.ground.errors import ConfigError, DataError
from flyrun.ground.schema import build, listing
from flyrun.tables import loader
from flyrun.tables.dataset import Dataset
from flyrun.tables.layout import Layout
from flyrun.tables.options import Table

if TYPE_CHECKING:
    import pandas as pd


_NONE = 1e-12  # an sd of effects that are not in a fit
_DRAWS = 1_000  # of a fit without effects, to which such are added


class Finished(NamedTuple):
    """A fit. x, (S, P), are draws, where effects of groups are drawn too with these after them, (S, P + E).

    log_weight, (S,): the logs of their weights, −∞ of those of none.

    order: (N,) which of the table's rows those of the posterior are, where they stand in another order.
    """

    dataset: Dataset
    layout: Layout
    posterior: Posterior
    x: np.ndarray
    log_weight: np.ndarray
    order: np.ndarray | None = None


def read(folder: Path, drawn: bool = False, by: str | None = None, **table: Any) -> Finished:
    """Read a fit's table again; table: settings of it that differ, as where the file is now.

    drawn: take the effects of groups that were drawn even where these are integrated out; by: then a column,
    or several as in clinic:ward, whose groups have effects, of 0 where the fit has none.
    Raises DataError where the table is not what it was.
    """
    about = stored.about(folder)
    settings, config = about["settings"], _table(folder, table)
    groups = tuple(bars.read(settings.get("groups", ())))
    parts = [":".join(bar.columns[: k + 1]) for bar in groups for k in range(len(bar.columns))]
    further = () if by is None or by in parts else (bars.Bar(tuple(by.split(":"))),)
    layout = Layout.from_dict(about["layout"])
    used = {column.name for column in (*layout.columns, layout.target)}
    if named := used.intersection(*(bar.columns for bar in further)) if further else set():
        raise ConfigError(f"{by}: {listing(named)} is a term or the target; name a column that is neither")
    request = Request(
        str(config.path),
        str(config.target),
        model=settings["model"],
        table={key: value for key, value in vars(config).items() if key not in ("path", "target", "sha256")},
        priors=tuple(priors.typed(text) for text in settings["prior"]),
        prior_scale=settings["prior_scale"],
        groups=(*groups, *further),
        formulas=settings.get("formulas", {}),
    )
    again = question.of(request, drawn or bool(about["chains"]) or len(groups) > 1)
    posterior, order = again.posterior, None
    if isinstance(posterior, grouped_table.OfTable):
        posterior.nodes, posterior.steps = about["groups"][0]["nodes"]
        order = posterior.order
    if isinstance(posterior, OfTerms):
        x = _with_effects(folder, posterior, again.layout)
        log_weight = np.zeros(len(x))
    else:
        x, log_weight = _draws(folder, posterior, again.layout)
    if isinstance(posterior, grouped_table.OfTable) and not posterior.family.by_sums:
        weight = np.exp(log_weight - log_weight.max())
        posterior.settle(weight @ x / weight.sum())
    assert again.dataset is not None
    return Finished(again.dataset, again.layout, posterior, x, log_weight, order)


def rows(folder: Path, **table: Any) -> "pd.DataFrame":
    """What a fit's model reads of the rows that it was fitted to. table and errors: as of `read`."""
    import pandas as pd  # late: half a second

    from flyrun.tables import new_rows, pieces  # late: pandas

    about, config = stored.about(folder), _table(folder, table)
    layout = Layout.from_dict(about["layout"])
    # what decided which rows were used, and how often, is read too
    beside = [layout.target.name, *(column.name for column in layout.beside.values()), *config.complete]
    group = [name for bar in bars.read(about["settings"].get("groups", ())) for name in bar.columns]
    names = list(dict.fromkeys([*new_rows.needed(layout), *beside, *group]))
    frame = pd.concat(pieces.pieces(Path(str(config.path)), names, config, layout.text | set(group)))
    frame = frame.head(config.limit) if config.limit else frame
    return frame.dropna() if config.missing == "drop" else frame


def _table(folder: Path, table: dict[str, Any]) -> Table:
    """The table of a fit, as its file is. DataError where that has changed, ConfigError for many files."""
    settings = stored.about(folder)["settings"]["dataset"] | table
    if table_files.several(settings["path"]):
        raise ConfigError(
            f"{folder}: was fitted by a scan of {settings['path']}, whose rows are not read again; "
            "fit one file of them for this"
        )
    config: Any = build("dataset", {"name": "table", **settings, "sha256": None})
    if loader.fingerprint(config) != settings["sha256"]:
        raise DataError(f"{config.path}: has changed since {folder} was fitted to it; fit it again")
    return config


def _draws(
    folder: Path, posterior: Posterior, layout: Layout, weighted: bool = True, none: tuple[str, ...] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The draws (S, P), as the posterior has them, and log weights (S,), 0 of even ones; of no sds `none`."""
    even, draws = stored.draws(folder)
    if draws and weighted:
        log_weight = draws["log_weight"]
        if "sign" in draws:
            log_weight = np.where(draws["sign"] > 0, log_weight, -np.inf)
    else:
        draws = {name: values.reshape(-1, *values.shape[2:]) for name, values in even.items()}
        log_weight = np.zeros(len(draws["beta"]))
    x = to_sampled(posterior, layout, draws)
    if isinstance(posterior, (grouped_table.OfTable, OfTerms)):
        draws |= {name: np.full(len(x), 0.0 if name.startswith("cor(") else _NONE) for name in none}
        others = {
            prior["term"]: draws[prior["term"]].ravel()
            for prior in posterior.other_priors()
            if prior["term"] in draws
        }
        x = np.concatenate([x, posterior.h_of(others, len(x))], axis=1)
    return x, log_weight


def _with_effects(folder: Path, posterior: OfTerms, layout: Layout) -> np.ndarray:
    """Draws with effects of groups, (S, P + E); of factors that the fit has not, 0."""
    effects: tuple[Any, ...] = stored.fitted(folder).effects
    absent = [factor for factor in posterior.factors[len(effects) :] if isinstance(factor, Factor)]
    none = tuple(name for factor in absent for name in stored_effects.sd_names(factor.bar))
    x, _ = _draws(folder, posterior, layout, weighted=False, none=none)
    kept = min(len(x), _DRAWS)
    which = effects[0].draws if effects else np.arange(kept) * len(x) // kept
    for factor in absent:
        q = len(factor.bar.names)
        nothing = np.zeros((len(factor.names), len(which), q))
        triangle = np.broadcast_to(_NONE * np.eye(q), (len(which), q, q))
        its = factor.bar, factor.names, np.bincount(factor.code), which, nothing, triangle
        effects = (*effects, stored_effects.Effects(*its))
    return np.concatenate([x[which], posterior.sampled(effects)], axis=1)
