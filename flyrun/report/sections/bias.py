"""How far draws of biased samplers are from the posterior, with sign, and what they cost beside exact ones.

Held against the stored reference of their posterior where there is one, else against the run's own exact arm.
"""

import math

import numpy as np

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.render import ARM, SEEDS, Column, View, exact, known, number, plain, table_view
from flyrun.report.section import Row, Section
from flyrun.report.sections import ess
from flyrun.report.sections.estimates import posterior, truth

DRAWS = 1_000
"""Over so many effective draws set-up is spread."""

FEW_EFFECTIVE = 200  # below it means and sds are too rough to tell a small bias


def _biased(arm: ArmResult) -> bool:
    return SECTION.about(arm) and arm.fact("exact") is False and all(cell.draws_mean for cell in arm.cells)


def row(run: Run, arm: ArmResult) -> Row:
    """An arm's values in the table."""
    queries, size = arm.each("queries_per_iter").mean(), ess.per_seed(arm, "ess_worse_per_1000").mean()
    setup = arm.fact_mean("setup_queries")
    # a test that reads a datum at both ends asks twice; a step that no test came to (delayed) reads none
    read = np.nanmin([arm.each("bright_mean").mean(), queries])
    found: Row = {
        "data_read": read / arm.fact("n_data", math.nan),
        "queries_per_draw": ess.ratio(1000.0 * queries, size),
        "effective_draws": size * sum(cell.n_iterations for cell in arm.cells) / 1000.0,
    }
    found["queries_per_draw_with_setup"] = found["queries_per_draw"] + setup / DRAWS
    expected = arm.fact_mean("expected_sd_ratio")
    found |= {} if math.isnan(expected) else {"expected_sd_ratio": expected}
    known_moments = truth(run, arm)
    if known_moments is None or not all(cell.draws_mean for cell in arm.cells):
        return found
    mean, sd, error = posterior(arm)
    found["bias_reference"] = known_moments.source
    if len(mean) != len(known_moments.mean) or known_moments.source == f"arm {arm.name}":
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        off = (mean - known_moments.mean) / known_moments.sd
        error = np.hypot(error * sd / known_moments.sd, known_moments.error)
        sds = sd / known_moments.sd
        worst, widest = int(np.argmax(np.abs(off))), int(np.argmax(np.abs(np.log(sds))))
        names = arm.pooled.names
        return found | {
            "bias": float(np.sqrt(np.mean(off**2))),
            "bias_error": float(np.sqrt(np.mean(error**2))),
            "bias_worst": float(off[worst]),
            "bias_worst_error": float(error[worst]),
            "bias_worst_of": names[worst],
            "sd_ratio": float(np.exp(np.mean(np.log(sds)))),
            "sd_ratio_worst": float(sds[widest]),
            "sd_ratio_worst_of": names[widest],
        }


def _signed(name: str) -> Column:
    def text(row: Row) -> str:
        value = row.get(f"{name}_worst")
        if not known(value):
            return "-"
        error = row.get(f"{name}_worst_error")
        size = f"{value:+.2f}" if name == "bias" else f"{value:.2f}"
        return size + (f" ± {error:.2f}" if known(error) else "") + f", {row[f'{name}_worst_of']}"

    return Column("worst", text)


def _bias(row: Row) -> str:
    if not known(row.get("bias")):
        return "-"
    return f"{row['bias']:.2f} ± {row['bias_error']:.2f}"


_COLUMNS = [
    ARM,
    exact("no"),
    Column("bias (sds)", _bias),
    _signed("bias"),
    Column("sd ×", plain("sd_ratio")),
    _signed("sd_ratio"),
    Column("data read", plain("data_read", 2)),
    Column("queries/iter", plain("queries_per_iter")),
    Column("queries/draw", plain("queries_per_draw")),
    Column("with set-up", plain("queries_per_draw_with_setup")),
    SEEDS,
]


def _views(rows: list[Row]) -> list[View]:
    stepped = any(known(row.get("expected_sd_ratio")) for row in rows)
    more = [Column("by the step", plain("expected_sd_ratio"))] if stepped else []
    title = "Bias, share of the data read, and queries an effective draw"
    return [table_view(title, [*_COLUMNS[:6], *more, *_COLUMNS[6:]], rows)]


_LEGEND = """
bias: of the draws' means, in the posterior's sds, root mean square over coordinates ± its Monte Carlo error,
and the worst coordinate's with its sign; sd ×: the draws' sds by the posterior's, geometric mean, and the
worst; by the step: as expected of a Gaussian posterior and steps of that length. The posterior is that of
{{ sources }}. data read: share of the data that a test or a step looked at. queries/draw: likelihood queries
an effective draw, by the worse of means and squares; with set-up: what comes before the first step spread
over {{ draws }} draws besides. Of a biased arm an effective draw is one of another distribution: it has no
speedup.
"""


def _legend(run: Run) -> list[str]:
    found = {known_moments.source for arm in SECTION.arms(run) if (known_moments := truth(run, arm))}
    return words.lines(_LEGEND, sources=" and ".join(sorted(found)), draws=number(DRAWS))


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    drawn = row(run, arm)["effective_draws"]
    if drawn >= FEW_EFFECTIVE:
        return []
    return [f"its bias rests on {drawn:,.0f} effective draws, by the worse of means and squares."]


SECTION = Section(
    "bias",
    columns="""
        exact bias bias_error bias_worst bias_worst_error bias_worst_of sd_ratio sd_ratio_worst
        sd_ratio_worst_of expected_sd_ratio data_read queries_per_draw queries_per_draw_with_setup
        effective_draws bias_reference
    """,
    reads=("ess", "draws_mean"), when=lambda run: any(map(_biased, run.arms)), row=row, views=_views,
    legend=_legend, arm_caveats=_arm_caveats,
)  # fmt: skip
