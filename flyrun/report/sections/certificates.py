"""How far Gaussian approximations are from their posterior by their own certificate."""

from flyrun.report import words
from flyrun.report.arms import ArmResult, Run
from flyrun.report.render import ARM, SEEDS, Column, known, number, plain, table_view
from flyrun.report.section import Row, Section

HEAVY = 0.7
FAR = 25.0  # of 1,000 draws even the best may be nowhere near the posterior, and k̂ knows nothing of it
_NAMES = ("variance", "error", "kl", "k_hat", "queries")


def _has(arm: ArmResult) -> bool:
    return bool(arm.infos) and arm.fact("certificate_variance") is not None


def _row(run: Run, arm: ArmResult) -> Row:
    return (
        {f"certificate_{name}": arm.fact_mean(f"certificate_{name}") for name in _NAMES} if _has(arm) else {}
    )


_COLUMNS = [
    ARM,
    Column("Var log w", plain("certificate_variance")),
    Column("± se", plain("certificate_error", 2)),
    Column("KL (nats)", plain("certificate_kl", 2)),
    Column("k̂", plain("certificate_k_hat", 2)),
    Column("queries", plain("certificate_queries")),
    SEEDS,
]

_LEGEND = """
Var log w: variance of log posterior − log approximation under the approximation, from 1,000 draws and two
lots of a few hundred data each, so that its queries, which no other column counts, do not grow with the data
but for a pass of methods that have no sites; se: its standard error, too small where weights have heavy
tails. KL: of the approximation from the posterior, half of it, where it is below ½. k̂: Pareto's, of
importance weights, where they are not all but even; above 0.7 draws of the approximation could not be
corrected by weights.
"""


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if not _has(arm):
        return []
    k_hat, variance = (arm.fact_mean(f"certificate_{name}") for name in ("k_hat", "variance"))
    if k_hat > HEAVY:
        return [f"its certificate's k̂ is {k_hat:.2f}, above {HEAVY}: it is far from the posterior somewhere."]
    if variance > FAR:
        return [f"Var log w is {number(variance, 2)}, above {FAR:g}: it is far from the posterior."]
    return []


SECTION = Section(
    "certificates",
    columns=" ".join(f"certificate_{name}" for name in _NAMES),
    row=_row, when=lambda run: any(map(_has, run.done)), legend=lambda run: words.lines(_LEGEND),
    views=lambda rows: [table_view(
        "How far approximations are, by their own certificate", _COLUMNS,
        [row for row in rows if known(row["certificate_variance"])],
    )],
    arm_caveats=_arm_caveats,
)  # fmt: skip
