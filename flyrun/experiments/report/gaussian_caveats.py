"""What is to be said of samplers about a Gaussian, or a t, where the posterior is far from one."""

from collections.abc import Sequence

import numpy as np

from flyrun.experiments.report.arms import ArmResult
from flyrun.ground.diagnostics import ess
from flyrun.ground.page import words

# Of independence proposals on QM9 (57 coefficients, Student-t, Laplace prior, 3 × 5,000 draws) 0.04, 0.09,
# 0.21, 0.26 were accepted with 1, 2, 5, 10 data a coefficient; R-hat was 1.32, 1.04, 1.01, 1.01, HMC's 1.00.
FEW_DATA = 5
# Tests of a surrogate transition that goes where its expansion holds accept 0.9 and more.
ASTRAY = 0.05

_GAUSSIAN_CAVEATS = """
{% if far_out %}
elliptical slice sampling is about a Gaussian and hardly moves far out, where the posterior falls off more
slowly; let chains start near the mode: protocol.init=map.

{% endif %}
{% if astray %}
acceptance is {{ rate | spec(".2g") }}: its moves end where the expansion is far from the posterior, or has no
end at all (order 3 far out); take sampler.moves={{ fewer }} or sampler.persistence={{ closer | spec(".3g")
}}.

{% endif %}
{% if heavy %}
its proposals are a t at the MAP, and a posterior of {{ heavy | join(" and ") }} with {{ share | spec(".2g")
}} data a coefficient, below {{ least }}, is far from it: chains can stay put for long; sampler=hmc moves.
{% endif %}
"""


def about_a_gaussian(
    arm: ArmResult, rhat: Sequence[float] | None = None, accepted: Sequence[float] | None = None
) -> list[str]:
    """That a sampler is about a Gaussian, or a t, where the posterior is far from one.

    rhat: of the coordinates; accepted: the share of each cell; by default as the arm's ESS section has them.
    """
    if rhat is None:
        rhat = arm.pooled.rhat if arm.pooled else ()
    if accepted is None:
        accepted = [getattr(cell, "accept_rate", 1.0) for cell in arm.cells]
    sampler, share = arm.setting("sampler", "name"), arm.fact("n_data", 0) / max(arm.fact("n_params", 0), 1)
    apart = np.nanmax([1.0, *rhat]) > ess.HIGH_RHAT
    far_out = sampler == "elliptical_slice" and arm.setting("protocol", "init") == "prior" and apart
    tails = {"student_t": "a Student-t likelihood", "laplace": "a Laplace prior"}
    names = [arm.setting(group, "name") for group in ("model", "prior")]
    few = sampler == "independence" and 0 < share < FEW_DATA
    heavy = [tails[name] for name in names if few and name in tails]
    rate = float(np.mean(accepted or [1.0]))
    return words.lines(
        _GAUSSIAN_CAVEATS, far_out=far_out, heavy=heavy, share=share, least=FEW_DATA, rate=rate,
        astray=sampler == "surrogate_transition" and rate < ASTRAY,
        fewer=max(1, arm.setting("sampler", "moves", default=1) // 4),
        closer=0.5 + 0.5 * arm.setting("sampler", "persistence", default=0.0),
    )  # fmt: skip
