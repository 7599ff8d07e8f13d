"""The report of `flyrun fit`: a table with a row per coefficient, from the run's fit.json."""

from __future__ import annotations

import math
from collections.abc import Callable

from flyrun.report.arms import Run
from flyrun.report.render import NOTHING, Column, View, number, table_view
from flyrun.report.section import Row, Section
from flyrun.report.sections.arms import unfinished
from flyrun.report.sections.ess import about_a_gaussian

# Stable: people and scripts read these by name.
COLUMNS = (
    "class", "coefficient", "mean", "sd", "q03", "q97", "ess_bulk", "ess_tail", "rhat",
    "effect_mean", "effect_q03", "effect_q97",
)  # fmt: skip
_PRIOR_LIKE = 0.8  # posterior sd over the prior's from where a coefficient is called hardly informed


def views(rows: list[Row]) -> list[View]:
    """The coefficients as people read them, a table for each class."""
    classes = list(dict.fromkeys(str(row["class"]) for row in rows))
    return [
        table_view(
            f"Coefficients of {one}" if one else "Coefficients",
            _COLUMNS,
            [row for row in rows if str(row["class"]) == one],
        )
        for one in classes
    ]


def caveats(run: Run) -> list[str]:
    """What a reader must know first; empty when the chains agree and the data speak."""
    arm = run.arms[0]
    lines = [text[0].upper() + text[1:] for text in unfinished(run, arm)]
    if arm.fact("exact") is False:
        lines.append("This sampler is biased: its draws do not follow the posterior exactly.")
    rows = _rows(run)
    lines += [f"{text[0].upper()}{text[1:]}." for text in run.info["fit"].get("caveats", [])]
    unlike = [row for row in rows if not (row["rhat"] < 1.01 and row["ess_bulk"] >= 400)]
    if unlike and run.info["fit"]["chains"] > 1:
        worst = max(unlike, key=lambda row: row["rhat"])
        lines.append(
            f"The chains do not agree yet on {len(unlike)} of {len(rows)} coefficients: R-hat is "
            f"{worst['rhat']:.3f} for {_label(worst)} (below 1.01 is asked for, and a bulk ESS of 400); the "
            "same command with a longer --budget goes on from here."
        )
    lines += [text[0].upper() + text[1:] for text in about_a_gaussian(arm)]
    return lines + _prior_like(run, rows)


def lead(run: Run) -> list[str]:
    """What was fitted to what, a line each."""
    fit = run.info["fit"]
    first, *others = fit["lines"]
    return [
        f"{first}.",
        *(line[0].upper() + line[1:] + "." for line in others),
        f"{fit['iterations']:,} iterations a chain, the first {fit['burn_in']:,} of them burn-in and left "
        "out.",
    ]


def legend(run: Run) -> list[str]:
    """What the columns mean."""
    task = run.info["fit"]["layout"]["task"]
    unit = (
        "in units of the target per unit of its column"
        if task == "regression"
        else "in log odds per unit of its column"
    )
    per = "sd" if run.arms[0].setting("dataset", "standardize", default=True) else "unit"
    return [
        f"A coefficient is {unit}; name[level] is that level's difference from the first. 3 % and 97 %: "
        "quantiles of the posterior, the ends of a 94 % interval. ESS: effective draws of all chains "
        "(rank-normalised bulk, and the smaller of the 5 % and 95 % tails); R-hat: rank-normalised, split "
        "(ArviZ's, Vehtari et al. 2021).",
        "posterior.nc holds the draws of these coefficients (beta), table.csv this table; its effect columns "
        f"are per {per} of a number column"
        + (f", in {per}s of the target." if task == "regression" else "."),
    ]


def _rows(run: Run) -> list[Row]:
    return run.info["fit"]["coefficients"]


def _label(row: Row) -> str:
    return f"{row['class']}: {row['coefficient']}" if row["class"] else str(row["coefficient"])


def _prior_like(run: Run, rows: list[Row]) -> list[str]:
    """Coefficients whose posterior is nearly as wide as their prior."""
    prior = run.arms[0].fact("prior_scale")
    if not prior or run.arms[0].setting("prior", "name") != "gaussian":
        return []
    # a contrast of two classes' coefficients has twice the prior variance
    wide = prior * (math.sqrt(2.0) if any(row["class"] for row in rows) else 1.0)
    lines = []
    for row in rows:
        if row["mean"] and row.get("effect_mean"):
            sd = row["sd"] * abs(row["effect_mean"] / row["mean"])
            if sd > _PRIOR_LIKE * wide:
                lines.append(_label(row))
    if not lines:
        return []
    return [
        f"The data say little about {len(lines)} of {len(rows)} coefficients, as {lines[0]}: their posterior "
        "is nearly as wide as the prior, which decides."
    ]


def _places(row: Row) -> int:
    """Decimals that two figures of the sd need."""
    sd = row["sd"]
    return min(max(1 - math.floor(math.log10(sd)), 0), 12) if sd > 0 and math.isfinite(sd) else 3


def _digits(value: float, sd: float) -> int:
    """Digits behind the point, in scientific notation, down to the second figure of the sd."""
    if not sd > 0 or not math.isfinite(sd) or not value:
        return 2
    return min(max(math.floor(math.log10(abs(value))) - math.floor(math.log10(sd)) + 1, 0), 12)


def _scaled(name: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        value, size = row[name], abs(row["mean"]) + row["sd"]
        if not math.isfinite(value):
            return f"{value:.3g}"
        if not 1e-4 < size < 1e9:
            return f"{value:.{_digits(value, row['sd'])}e}"
        shown = f"{value:,.{_places(row)}f}"
        return shown.lstrip("-") if not any(digit in shown for digit in "123456789") else shown

    return text


_COLUMNS = [
    Column("coefficient", lambda row: str(row["coefficient"])),
    Column("mean", _scaled("mean")),
    Column("sd", _scaled("sd")),
    Column("3 %", _scaled("q03")),
    Column("97 %", _scaled("q97")),
    Column("bulk ESS", lambda row: number(row["ess_bulk"])),
    Column("tail ESS", lambda row: number(row["ess_tail"])),
    Column("R-hat", lambda row: NOTHING if math.isnan(row["rhat"]) else f"{row['rhat']:.3f}"),
]


def _when(run: Run) -> bool:
    return "fit" in run.info


# The chains' ESS and costs are means to an end here; how they ran is still drawn.
SECTION = Section(
    "coefficients", when=_when, columns=COLUMNS, table=_rows, views=views, lead=lead, legend=legend,
    caveats=caveats, replaces=("arms", "paper", "ess", "cost", "estimates"),
)  # fmt: skip
