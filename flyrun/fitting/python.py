"""`flyrun.fit` and `flyrun.load`: the exact posterior of a table, as an object."""

import argparse
import contextlib
import math
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from flyrun.fitting import predict, priors, ratios, stored
from flyrun.fitting.bars import Bar
from flyrun.fitting.fitted_draws import Fitted
from flyrun.fitting.formula_sides import merged, parameters
from flyrun.fitting.request import KEYS, LISTS, Budget, Clock, Request, refuse_sampling_weights
from flyrun.fitting.smooths import Smooth
from flyrun.ground import addresses, netcdf, sent_runs
from flyrun.ground.errors import ConfigError, FlyrunError
from flyrun.tables import frames
from flyrun.tables.layout import Layout
from flyrun.tables.options import ROLES, listed, names_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from flyrun.fitting import engine, loo

_ROWS = 12  # of a summary that is shown where a Fit is
_FURTHER = (
    "link",
    "budget",
    "prior_scale",
    "name",
    "results_dir",
    "new_groups",
    "kind",
    "draws",
    "sampling_weights",
)  # arguments beside KEYS
_SETTINGS = 8  # of predictions whose draws are kept at hand


def fit(
    data: object,
    target: str | Sequence[str] | Mapping[str, str],
    *,
    model: str | None = None,
    link: str | None = None,
    priors: Mapping[str, str] | None = None,
    prior_scale: float = Request.prior_scale,
    budget: float | None = None,
    name: str | None = None,
    results_dir: str = Request.results_dir,
    fresh: bool = False,
    **table: Any,
) -> "Fit":
    """Draw from the exact posterior of a regression, as `flyrun fit` does.

    data: a frame of pandas, polars or Arrow, or a file's name. target: the column to explain, or a formula,
    as "died ~ age * C(sex) + (1 | clinic)"; several, the target's first, explain further parameters, as
    ["y ~ x", "sigma ~ x"] or {"y": "x", "sigma": "x"}. model: by the target, if not given;
    link: another than its own, as "cloglog".
    priors: by term, as {"age": "normal(0, 1)"}, per unit of its column. prior_scale: sd of the other
    coefficients' priors, per sd of a column. budget: seconds for chains, where weighted draws do not serve,
    by default 600, or for a scan.
    name: of the folder in results_dir/runs that keeps draws and report; without one they go as the Fit goes.
    fresh: replace what is in that folder.
    table: offset, exposure, trials, weights, precision_weights: names of columns; features, drop,
    categorical, numeric, na: lists of names; reference: by category, as {"arm": "placebo"}; missing="drop";
    where, as "year >= 2023"; decimal, encoding and rows, of files.
    Raises ConfigError or DataError, in one line, for what you can mend; warns where chains do not agree.
    """
    folder = None
    if name is None:
        folder = tempfile.TemporaryDirectory(prefix="flyrun-fit-")
        results_dir, name = folder.name, "fit"
    settings = _settings(table)
    groups: tuple[Bar | Smooth, ...] = ()
    if isinstance(target, Mapping):
        target = [f"{left} ~ {right}" for left, right in target.items()]
    target, *further = [target] if isinstance(target, str) else target
    if "~" in target:
        target, settings, groups = merged(target, settings)
    formulas, of_others = parameters(further, target)
    with _named(data) as file:
        request = Request(
            file,
            target,
            model=model,
            link=link,
            table=settings,
            prior_scale=prior_scale,
            priors=tuple(typed_prior(term, prior) for term, prior in (priors or {}).items()),
            budget=Request.budget if budget is None else Budget(budget),
            name=name,
            results_dir=results_dir,
            fresh=fresh,
            groups=(*groups, *of_others),
            formulas=formulas,
        )
        with _named_here(), stored.alone(request) as here:
            answer = _answer(here)
            fitted = Fit(stored.write(answer), data, folder)
            if folder is None:  # which may be looked into later
                fitted.write_report()
    if answer.doubt:
        warnings.warn(f"{answer.doubt}: see checks()", stacklevel=2)
    return fitted


#: an option of the command with a value, as a remedy types it
_OPTION = re.compile(
    r"--([a-z]+(?:-[a-z]+)*)(?:[ =](?!(?:and|is|or|out|says|too)\b)('[^']*'|[^\s;'()]*[^\s;'():,.]))?"
)


@contextlib.contextmanager
def _named_here() -> Iterator[None]:
    """Let errors call options as Python does: missing="drop" for --missing drop, drop=["a"] for --drop a."""
    try:
        yield
    except FlyrunError as error:
        raise type(error)(_OPTION.sub(_as_argument, str(error))) from error


def _as_argument(option: re.Match[str]) -> str:
    """An option of the command as an argument of `fit`."""
    name, value = option[1].replace("-", "_"), (option[2] or "").strip("'")
    if name not in (*KEYS, *_FURTHER) or option[2] is None:
        return name + option[0].removeprefix(f"--{option[1]}")
    if name == "reference":
        return "reference={!r}".format(dict([value.split("=", 1)])) if "=" in value else name
    if name in LISTS:
        return f"{name}={[*names_of(value)]!r}"
    return f"{name}={value!r}" if not value.isdigit() else f"{name}={value}"


def _answer(request: Request) -> "engine.Answer":
    """Of one scan, where the table is many files or one too large."""
    from flyrun.fitting import engine  # late: who only loads a fit needs neither
    from flyrun.fitting.scan import many_files  # late

    if many_files.wanted(request):
        return many_files.answer(request, None)
    return engine.answer(stored.asked(request), Clock().spent(request.budget))


def load(folder: str | Path, results_dir: str = Request.results_dir) -> "Fit":
    """A finished fit, by its name, its folder results/runs/NAME, or the file that `save` wrote; of one at an
    address, as s3://bucket/results/runs/NAME, a copy is kept.

    Nothing else is written. Raises ConfigError where no fit is there.
    """
    if addresses.is_address(results_dir):
        folder = f"{addresses.full(results_dir)}/runs/{folder}"
    path = Path(sent_runs.fetched(str(folder))).expanduser()
    named = Path(results_dir).expanduser() / "runs" / path  # a folder of data may have a fit's name
    return Fit(named if named.is_dir() and not stored.is_fit(path) else path)


class Fit:
    """A posterior: its draws, what they say, and what vouches for them. folder: where its files are, or the
    file that `save` wrote.

    Several threads may ask at once.
    """

    def __init__(self, folder: Path, data: object = None, temporary: object = None):
        self.folder = folder
        self._about = stored.about(folder)
        self._data = data
        self._temporary = temporary  # removes the folder when it is collected
        self._at_hand = dict[tuple[int | None, str, int], Fitted]()

    def save(self, path: str | Path) -> None:
        """Write all that it knows into one file, for `flyrun.load` on any machine, without its table.

        A ZIP archive of JSON and netCDF: no pickle, and nothing in it is run. path: ends in .flyrun. Raises
        ConfigError for another ending, StoreError where it cannot be written.
        """
        stored.save(self.folder, Path(path).expanduser())

    @property
    def posterior(self) -> "xr.DataTree":
        """The draws, for ArviZ: beta (chain, draw, coefficient), on the columns' own scales."""
        with stored.opened(self.folder) as file, netcdf.tree(file) as tree:
            return tree.load()

    def summary(self, exp: bool = False) -> "pd.DataFrame":
        """A row a coefficient: mean, sd, ends of the 94 % interval and effective draws.

        exp: of odds ratios (logit) or rate ratios (log link), e to the coefficients, without the intercept:
        median and interval; of classes against the first. Raises ConfigError for models of other links.
        """
        import pandas as pd  # late

        rows = pd.DataFrame(self._about["coefficients"])
        rows = rows.set_index(["class", "coefficient"] if rows["class"].any() else "coefficient")
        kept = ["mean", "sd", "q03", "q97", "ess", "ess_bulk", "ess_tail", "rhat"]
        table = rows[[name for name in kept if name in rows and rows[name].notna().any()]]
        if not exp:
            return table
        layout, link = Layout.from_dict(self._about["layout"]), self._about["link"]
        name = ratios.name_of(link, layout.target.name, layout.log_target, "exp")
        beta = self.posterior["posterior"]["beta"].to_numpy()
        rows = pd.DataFrame(ratios.beside(self._about["coefficients"], beta, link, layout)).set_index(
            rows.index
        )
        columns = rows[[name, f"{name}_q03", f"{name}_q97"]].dropna()
        return columns.set_axis([name, "q03", "q97"], axis=1)

    @overload
    def predict(
        self,
        data: Mapping[str, object],
        kind: str = "mean",
        interval: float = 0.9,
        draws: int | None = None,
        seed: int = 0,
        new_groups: str = "refuse",
    ) -> dict[str, float]: ...

    @overload
    def predict(
        self,
        data: object,
        kind: str = "mean",
        interval: float = 0.9,
        draws: int | None = None,
        seed: int = 0,
        new_groups: str = "refuse",
    ) -> "pd.DataFrame": ...

    def predict(
        self,
        data: object,
        kind: str = "mean",
        interval: float = 0.9,
        draws: int | None = None,
        seed: int = 0,
        new_groups: str = "refuse",
    ) -> "pd.DataFrame | dict[str, float]":
        """Mean, sd and the ends of the central interval of each row's prediction, as `flyrun predict` has it.

        data: a frame with the columns that explain the target, or a row, {"age": 41, "sex": "f"}, whose
        prediction comes as a dictionary, too. kind: "mean", "chance" of one trial, or
        "response", new targets. draws: so many of the fit's, by default all. new_groups: "refuse" groups that
        the fit has not seen, "draw" their effects, as groups differ, or take "zero".
        Raises DataError for rows that do not fit.
        """
        with _named_here():
            fit = self._fitted(draws, new_groups, seed)
            if isinstance(data, Mapping):
                row = predict.of_row(fit, data, kind, interval, seed)
                if not all(map(math.isfinite, row.values())):
                    warnings.warn(f"the row: {predict.BEYOND}", stacklevel=2)
                return row
            rows = predict.checked_rows(fit, frames.pandas(data))
            return _warned(predict.predicted(fit, rows, kind, interval, seed))

    def _fitted(self, draws: int | None = None, new_groups: str = "refuse", seed: int = 0) -> Fitted:
        """The draws for predictions, read once."""
        if new_groups != "draw":
            seed = 0  # which then matters to no effect
        if len(self._at_hand) > _SETTINGS:
            self._at_hand = {}
        key = draws, new_groups, seed
        fit = self._at_hand.get(key)
        if fit is None:
            usual = key == (None, "refuse", 0)
            whole = stored.fitted(self.folder) if usual else self._fitted()
            fit = self._at_hand[key] = whole if usual else whole.thinned(draws).with_new(new_groups, seed)
        return fit

    @property
    def groups(self) -> "pd.DataFrame":
        """Effects of groups, a row each: rows, mean, sd, ends of the 94 % interval, and shrinkage.

        Intercepts are where a slope's column is 0. shrinkage: the effect's posterior variance over that of
        groups: near 0 a group's own rows decide, near 1 what all groups say. Of two factors
        with the column of each before. Raises ConfigError for a fit without groups.
        """
        import pandas as pd  # late

        effects = self._fitted().factors
        if not effects:
            raise ConfigError("groups: the fit has none; (1 | COLUMN) in its formula makes groups")
        tables, names = [factor.table() for factor in effects], [factor.bar.label for factor in effects]
        if len({table.index.nlevels for table in tables}) > 1:  # those of one effect do not name it
            tables = [
                pd.concat({its.names[0]: table}, names=["effect"]).swaplevel()
                if table.index.nlevels == 1
                else table
                for its, table in zip(effects, tables, strict=True)
            ]
        return tables[0] if len(tables) == 1 else pd.concat(tables, keys=names)

    def comparisons(
        self, column: str, interval: float = 0.94, kind: str = "mean", groups: str = "known"
    ) -> "pd.DataFrame":
        """By how much the expected target changes with a column, averaged over the fit's rows.

        Of a category each level against the reference, of a number one more against what each row has. Of
        several classes the chance of each. Mean, sd and the ends of the interval, over draws. kind: of
        successes among trials "mean" is of their number, "chance" of success in one trial; the index's name
        says which. groups: "known", the rows' own, "draw", new ones in their place, or "zero", no effects.
        Raises ConfigError for a column that explains nothing, DataError where the table has changed.
        """
        from flyrun.fitting import comparisons  # late: as above

        with _named_here(), self._rows() as rows:
            return _warned(comparisons.differences(self.folder, rows, column, interval, kind, groups))

    def slopes(
        self,
        column: str,
        by: str | None = None,
        interval: float = 0.94,
        kind: str = "mean",
        groups: str = "known",
    ) -> "pd.DataFrame":
        """The derivative of the expected target by a number's column, averaged over rows; by: of each level.

        Columns and errors: as `comparisons`.
        """
        from flyrun.fitting import comparisons  # late: as above

        with _named_here(), self._rows() as rows:
            return _warned(comparisons.derivatives(self.folder, rows, column, by, interval, kind, groups))

    @contextlib.contextmanager
    def _rows(self) -> "Iterator[pd.DataFrame]":
        """The rows that it was fitted to, as they stand in the table."""
        from flyrun.fitting import finished  # late: as above

        with self._named() as path:
            yield finished.rows(self.folder, **({} if path is None else {"path": path}))

    def _named(self) -> contextlib.AbstractContextManager[str | None]:
        """The name that its frame has for as long; none of a fit of a file."""
        of_a_file = self._data is None or isinstance(self._data, (str, Path))
        return contextlib.nullcontext() if of_a_file else _named(self._data)

    def loo(self, by: str | None = None) -> "loo.Loo":
        """How well the fit predicts each row from all others: elpd, its standard error, by row.

        by: leave out a group of rows at a time, as "clinic", and predict them together as a new one's; a
        column of the fit's groups.
        Reads the table again. Raises DataError where it is not there, or not as it was, ConfigError for a
        column without effects.
        """
        from flyrun.fitting import loo  # late: as above

        with _named_here(), self._named() as path:
            return loo.of(self.folder, by, path=path)

    @property
    def priors(self) -> "pd.DataFrame":
        """The prior of each coefficient, per unit of its column."""
        import pandas as pd  # late

        rows = [row for row in self._about["coefficients"] if row.get("prior")]
        return pd.DataFrame({"prior": [row["prior"] for row in rows]}, [row["coefficient"] for row in rows])

    def checks(self) -> dict[str, Any]:
        """How the draws were made, whether they can be trusted, and what the table says little of."""
        return {key: self._about[key] for key in ("how", "agreed", "caveats")}

    @property
    def report(self) -> Path:
        """The page that a browser shows, made when it is first asked for."""
        path = self.folder / "report.html"
        return path if path.exists() else self.write_report()

    def write_report(self) -> Path:
        """Make report and table from what is stored; the page that a browser shows.

        Raises ConfigError for a model, which is a file.
        """
        if self.folder.is_file():
            raise ConfigError(f"{self.folder}: a report goes into the folder of a fit, and this is a file")
        from flyrun.fitting import page  # late: matplotlib

        page.build(self.folder)
        return self.folder / "report.html"

    def __repr__(self) -> str:
        """How it was drawn, and the coefficients."""
        return f"{self._about['how']}\n{self.summary().head(_ROWS).to_string(float_format='{:.4g}'.format)}"

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        table = self.summary().head(_ROWS).to_html(float_format="{:.4g}".format)
        return f"<p>{self._about['how']}</p>{table}"


def difference(first: "loo.Loo", other: "loo.Loo") -> "loo.Difference":
    """The elpd of one fit's `loo()` less that of another, with its standard error.

    Raises ConfigError where they are not of the same rows.
    """
    from flyrun.fitting import loo  # late: as above

    with _named_here():
        return loo.difference(first, other)


def _warned(table: "pd.DataFrame") -> "pd.DataFrame":
    """The same, with a warning where its numbers are not finite."""
    if note := predict.overflow(table):
        warnings.warn(note, stacklevel=3)
    return table


@contextlib.contextmanager
def _named(data: object) -> Iterator[str]:
    """The name by which the reader of tables finds data."""
    if isinstance(data, (str, Path)):
        yield str(data)
        return
    with frames.held(frames.pandas(data)) as name:
        yield name


def _settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a table as a request has them. TypeError for a name that is no option."""
    if "sampling_weights" in table:
        with _named_here():
            refuse_sampling_weights(str(table["sampling_weights"]))
    known = {*ROLES, *LISTS, "order", "missing", "decimal", "encoding", "rows", "where"}
    if unknown := sorted(set(table) - known):
        raise TypeError(f"fit: unknown option {unknown[0]!r}; there are {', '.join(sorted(known))}")
    options = dict(table)
    if isinstance(reference := options.get("reference"), Mapping):
        options["reference"] = [f"{name}={level}" for name, level in reference.items()]
    if isinstance(order := options.get("order"), Mapping):
        options["order"] = [
            f"{name}={','.join(map(listed, map(str, levels)))}" for name, levels in order.items()
        ]
    options = {key: _several(value) if key in (*LISTS, "order") else value for key, value in options.items()}
    if "rows" in options:
        options["limit"] = options.pop("rows")
    return options


def _several(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def typed_prior(term: str, prior: str) -> priors.Typed:
    """A prior by its term. Raises ConfigError with an example for one that cannot be read."""
    try:
        return priors.typed(f"{term}: {prior}")
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"priors: {error}") from error
