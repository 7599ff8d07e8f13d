"""The page of a fit: a table with a row per coefficient, what to know first, and figures."""

import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from flyrun.fitting import page_figures, stored
from flyrun.fitting.page_figures import UNITS, effect_per
from flyrun.ground import files
from flyrun.ground.page import document, figures, words
from flyrun.ground.page.metrics import Metric, Row, table
from flyrun.ground.page.render import NOTHING, View, spec
from flyrun.ground.run_files import read_run

_MOST_FILES = 12  # that are named
_PRIOR_LIKE = 0.8  # posterior sd over the prior's from where a coefficient is called hardly informed

#: what fit.json holds
Fit = dict[str, Any]


def build(
    folder: Path,
    console: Console | None = None,
    each: Callable[..., Iterable] = map,
    pdf: bool = False,
) -> document.Document:
    """Write a fit's report and tables, and print these when a console is given.

    each: `map` of figures.  pdf: write these as .pdf, too.
    Raises ConfigError where the folder holds no fit, StoreError where it cannot be written.
    """
    fit, info = stored.about(folder), read_run(folder)
    rows = fit["coefficients"]
    every = [*rows, *fit.get("explained", ())]
    frame = pd.DataFrame(every, columns=_columns(rows), dtype=object)
    with files.writing(folder):
        plots = page_figures.of(fit, info["title"])
        drawn, left_out, _ = figures.drawn(plots, folder / "figures", each, pdf)
        text = document.compose(
            info,
            [info],
            lead=_lead(fit),
            views=views(fit),
            caveats=[*_caveats(fit), *left_out],
            legend=_legend(fit),
            figures=drawn,
        )
        document.write(text, folder, info, frame)
    if console is not None:
        document.show(text, folder, console)
    return text


def views(fit: Fit) -> list[View]:
    """The coefficients as people read them, a table for each class; and groups' effects, one a factor."""
    classes: dict[str, list[Row]] = {}
    for row in fit["coefficients"]:
        classes.setdefault(str(row["class"]), []).append(row)
    tables = [
        table(f"Coefficients of {name}" if name else "Coefficients", _COEFFICIENT, _SHOWN, own)
        for name, own in classes.items()
    ]
    if fit.get("explained"):
        tables.append(table("Variance explained", _COEFFICIENT, _COLUMNS[:4], fit["explained"]))
    if curves := {curve["smooth"]: curve for curve in fit.get("smooths", ())}:
        tables.append(table("Smooth curves", _SMOOTH, _OF_SMOOTHS, list(curves.values())))
    for one in fit.get("groups", ()):
        shown = _EFFECTS if len(one["effects"]) > 1 else _EFFECTS[1:]
        title = f"Effects of {one['group']}"
        if "against" in one:
            title = f"Coefficients of {one['group']} against {one['against']}"
        tables.append(table(title, _LEVEL, shown, one["rows"]))
    return tables


def _caveats(fit: Fit) -> list[str]:
    """What a reader must know first; empty when the chains agree and the data speak."""
    rows = fit["coefficients"]
    lines = [f"{text}." for text in fit["caveats"]] + _unlike(fit, rows) + _prior_like(rows)
    return _sentences(fit, lines)


def _unlike(fit: Fit, rows: list[Row]) -> list[str]:
    """That chains do not agree."""
    unlike = [row for row in rows if not (row.get("rhat", 1.0) < 1.01 and row.get("ess_bulk", 400) >= 400)]
    if not unlike or fit["chains"] < 2:
        return []
    worst = max(unlike, key=lambda row: row["rhat"])
    return [
        f"The chains do not agree yet on {len(unlike)} of {len(rows)} coefficients: R-hat is "
        f"{spec(worst['rhat'], '.3f')} for {_label(worst)} (below 1.01 is asked for, and a bulk ESS of 400); "
        "the same command with a longer --budget runs them longer."
    ]


def _lead(fit: Fit) -> list[str]:
    """What was fitted to what, and how the draws came about, a line each."""
    lines: list[str] = [*fit["lines"], fit["how"]]
    first, *others = lines
    return [f"{first}.", *_sentences(fit, [f"{line}." for line in others])]


def _sentences(fit: Fit, lines: list[str]) -> list[str]:
    """The lines with a capital first, but where they begin with a name of the table's."""
    layout = fit.get("layout", {})
    columns = [one for key in ("features", "sources") for one in layout.get(key, ())]
    names = {row["coefficient"] for row in fit.get("coefficients", ())} | {one["name"] for one in columns}
    names |= {layout.get("target", {}).get("name", "")} - {""}
    named = re.compile(rf"(?:{'|'.join(map(re.escape, names)) or '(?!)'})(?!\w)")
    return [text if named.match(text) else text[:1].upper() + text[1:] for text in lines]


_LEGEND = """
A coefficient is in {{ unit }} per unit of its column;
name[level] is that level's difference from the first. 3 % and 97 %: quantiles of the posterior, the ends of a
94 % interval. effect: the mean per {{ per }} of a number column{% if per == "sd" %} (from one value to the
other of a column of two){% endif %}{% if regression %}, in {{ per }}s of the target{% endif %}, as in the
figure, so that columns compare.
{% for one in groups %}{% if "against" in one %} Coefficients of {{ one.group }}: each level's
difference from {{ one.against }}{% if one.shown < one.levels %}; the {{ one.shown }} lowest and highest of
{{ one.levels }} levels{% endif %}.
{% else %} Effects of {{ one.group }}: by how much
{% if one.shown < one.levels %}the {{ one.shown }} lowest and highest of {{ one.levels }} groups
differ{% else %}each group differs{% endif %} from what the coefficients say; {{ one.sd or
"sd(" ~ one.group ~ ")" }} is the sd of groups' true effects.
{% endif %}{% endfor %}{% if groups %} shrinkage: an effect's posterior variance over that of groups: near 0 a
group's own rows decide, near 1 what all groups say; of a level's coefficient over that of its prior.
{% endif %}{% if explained %} share: of the linear predictor's variance over rows, with new groups in
the place of these.
{% endif %}{% if "icc" in explained %} icc: of the variance that columns leave, noise with it,
{% if regression %}of the target{% else %}of the latent number{% endif %}: the correlation of two rows of a
group.
{% endif %}{% if "R2" in explained %} R2: of the expected target's variance over rows to that and the noise's
(Gelman et al. 2019).
{% endif %}{% if smooths %} A smooth is its column's line and what it strays from that: sd(…) is the sd, over
the rows, of what it strays. Effective degrees of freedom are at the posterior's mean, of a line 1.
{% endif %}{% if ratio %} {{ ratio }}: e to the coefficient, its median and 94 % interval.
{% endif %}{% if chains %} ESS: effective draws of all chains (rank-normalised bulk, and the smaller of
the 5 % and 95 % tails); R-hat: rank-normalised, split (ArviZ's, Vehtari et al. 2021).
{% else %} ESS: how many independent draws would tell the mean as well as the weighted ones.
{% endif %}

{% if files %} Files, with the first letters of the SHA-256 of what each says of itself at its end:
{% for one in files[:most] %}{{ one.path }} ({{ one.bytes | spec(",") }} bytes, {{ one.footer[:12] }}){{
", " if not loop.last }}{% endfor %}{% if files | length > most %} and {{ files | length - most }} more, which
fit.json has{% endif %}.

{% endif %}
posterior.nc holds the draws of these coefficients (beta){% if not chains %}: in `weighted`
with weights, in `posterior` of even weight by systematic resampling of these{% endif %}. table.csv is this
table, with effects' intervals{% if groups %}; groups.csv has all groups{% endif %}{% if smooths %};
smooths.csv has the curves with their bands{% endif %}.
"""


def _legend(fit: Fit) -> list[str]:
    """What the columns mean."""
    more = {
        "files": fit["scan"].get("files", []),
        "most": _MOST_FILES,
        "groups": fit.get("groups", []),
        "smooths": fit.get("smooths", []),
        "ratio": next((one.head for one in _RATIOS if _has(fit["coefficients"], one)), ""),
        "per": effect_per(fit),
        "explained": {row["coefficient"].partition("(")[0] for row in fit.get("explained", ())},
    }
    return words.lines(
        _LEGEND,
        unit=UNITS[fit["link"]],
        regression=fit["link"] == "identity",
        link=fit["link"],
        chains=fit["chains"],
        **more,
    )


def _has(rows: list[Row], metric: Metric) -> bool:
    """Whether a row has this number."""
    return any(metric.name in row for row in rows)


def _label(row: Row) -> str:
    return f"{row['class']}: {row['coefficient']}" if row["class"] else str(row["coefficient"])


def _prior_like(rows: list[Row]) -> list[str]:
    """Coefficients whose posterior is nearly as wide as their prior."""
    wide = ((row, row.get("prior_sd")) for row in rows if "effect_mean" in row)
    vague = [_label(row) for row, prior in wide if prior and row["sd"] > _PRIOR_LIKE * prior]
    if not vague:
        return []
    return [
        f"The data say little about {len(vague)} of {len(rows)} coefficients, as {vague[0]}: their posterior "
        "is nearly as wide as the prior, which decides."
    ]


def _power(value: float) -> int:
    return math.floor(math.log10(abs(value)))


def _scaled(name: str) -> Callable[[Row], str]:
    def text(row: Row) -> str:
        value, sd, size = row[name], row["sd"], abs(row["mean"]) + row["sd"]
        if not math.isfinite(value):
            return NOTHING if math.isnan(value) else f"{value:.3g}"
        # Down to the second figure of the sd, in scientific notation where numbers are tiny or huge.
        known = sd > 0 and math.isfinite(sd)
        if not 1e-4 < size < 1e9:
            digits = min(max(_power(value) - _power(sd) + 1, 0), 12) if known and value else 2
            return f"{value:.{digits}e}"
        shown = f"{value:,.{min(max(1 - _power(sd), 0), 12) if known else 3}f}"
        return shown.lstrip("-") if not any(digit in shown for digit in "123456789") else shown

    return text


def _known(value: float, form: str) -> str:
    return NOTHING if math.isnan(value) else spec(value, form)


def _ratio(name: str) -> Callable[[Row], str]:
    """A ratio with its interval."""

    def text(row: Row) -> str:
        if not (value := row.get(name)) or math.isnan(value):
            return NOTHING
        return f"{value:.3g} ({row[f'{name}_q03']:.3g} to {row[f'{name}_q97']:.3g})"

    return text


_COEFFICIENT = Metric("coefficient", "coefficient", text=lambda row: str(row["coefficient"]))
_COLUMNS = [
    Metric("mean", "mean", text=_scaled("mean")),
    Metric("sd", "sd", text=_scaled("sd")),
    Metric("q03", "3 %", text=_scaled("q03")),
    Metric("q97", "97 %", text=_scaled("q97")),
    Metric("ess", "ESS"),
    Metric("ess_bulk", "bulk ESS"),
    Metric("ess_tail", "tail ESS"),
    Metric("rhat", "R-hat", text=lambda row: _known(row.get("rhat", math.nan), ".3f")),
    Metric("effect_mean", "effect", text=lambda row: _known(row.get("effect_mean", math.nan), ".3g")),
]
_PRIOR = Metric("prior", "prior", text=lambda row: str(row.get("prior", "")))
_PRIOR_DATA = Metric("prior_data", "prior and data", text=lambda row: str(row.get("prior_data") or NOTHING))
_RATIOS = [
    Metric(name, head, text=_ratio(name))
    for name, head in (
        ("odds_ratio", "odds ratio"),
        ("rate_ratio", "rate ratio"),
        ("hazard_ratio", "hazard ratio"),
        ("ratio", "ratio"),
    )
]
_SHOWN = [*_COLUMNS[:4], *_RATIOS, _COLUMNS[-1], *_COLUMNS[4:-1], _PRIOR, _PRIOR_DATA]
_LEVEL = Metric("level", "group", text=lambda row: str(row["level"]))
_SMOOTH = Metric("smooth", "smooth", text=lambda row: str(row["smooth"]))
_OF_SMOOTHS = [
    Metric("splines", "splines", text=lambda row: spec(row["splines"], ",.0f")),
    Metric("freedom", "effective degrees of freedom", text=lambda row: spec(row["freedom"], ".1f")),
]
_EFFECTS = [
    Metric("effect", "of", text=lambda row: str(row["effect"])),
    Metric("rows", "rows", text=lambda row: spec(row["rows"], ",.0f")),
    *_COLUMNS[:2],
    Metric("low", "3 %", text=_scaled("low")),
    Metric("high", "97 %", text=_scaled("high")),
    Metric("shrinkage", "shrinkage", text=lambda row: spec(row["shrinkage"], ".2f")),
]
METRICS = [
    *(Metric("class"), _COEFFICIENT, *_COLUMNS, _PRIOR, Metric("effect_q03"), Metric("effect_q97")),
    _PRIOR_DATA,
]


def _columns(rows: list[Row]) -> list[str]:
    """Those of table.csv."""
    asked = [one.name for one in _RATIOS if _has(rows, one)]
    return [one.name for one in METRICS] + [f"{name}{end}" for name in asked for end in ("", "_q03", "_q97")]
