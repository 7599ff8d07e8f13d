"""How far Gaussian approximations are from their posterior by their own certificate."""

from flyrun.diagnostics.psis import HEAVY, heavy
from flyrun.report.arms import ArmResult, Run
from flyrun.report.metrics import Metric, fact, k_hat, table
from flyrun.report.render import known, number
from flyrun.report.section import Section

FAR = 25.0  # of 1,000 draws even the best may be nowhere near the posterior, and k̂ knows nothing of it


def _has(arm: ArmResult) -> bool:
    return bool(arm.infos) and arm.fact("certificate_variance") is not None


METRICS = [
    Metric(
        "certificate_variance", "Var log w", fact("certificate_variance"),
        "variance of log posterior − log approximation over 1,000 draws of the approximation",
    ),
    Metric(
        "certificate_error", "± se", fact("certificate_error"),
        "its standard error, too small where weights have heavy tails", digits=2,
    ),
    Metric(
        "certificate_kl", "KL (nats)", fact("certificate_kl"),
        "of the approximation from the posterior: half of that variance, where it is below ½", digits=2,
    ),
    k_hat("certificate_k_hat", fact("certificate_k_hat")),
    Metric(
        "certificate_queries", "queries", fact("certificate_queries"),
        "likelihoods that the certificate took, counted nowhere else",
    ),
]  # fmt: skip


def _arm_caveats(run: Run, arm: ArmResult) -> list[str]:
    if not _has(arm):
        return []
    shape, variance = (arm.fact_mean(f"certificate_{name}") for name in ("k_hat", "variance"))
    if heavy(shape):
        return [f"its certificate's k̂ is {shape:.2f}, above {HEAVY}: it is far from the posterior somewhere."]
    if variance > FAR:
        return [f"Var log w is {number(variance, 2)}, above {FAR:g}: it is far from the posterior."]
    return []


SECTION = Section(
    "certificates", metrics=METRICS, when=lambda run: any(map(_has, run.done)), arm_caveats=_arm_caveats,
    views=lambda rows: [table(
        "How far approximations are, by their own certificate", METRICS,
        [row for row in rows if known(row["certificate_variance"])],
    )],
)  # fmt: skip
