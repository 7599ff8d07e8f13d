"""Where nodes of the quadrature over groups' effects lie, about centres in units of C (`integrated_out`)."""

from dataclasses import dataclass

import numpy as np

from flyrun.fitting.groups import scales


@dataclass
class Nodes:
    """About x: scores (G, q), rows' curvature there (G, q, q), how scores move with x but h, (G, q, P')."""

    at: np.ndarray
    score: np.ndarray
    curvature: np.ndarray
    move: np.ndarray


def of_pairs(h: np.ndarray, score: list[np.ndarray], curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres of nodes, (2, g, S), and C00, C10, C11, (3, g, S), for scores of intercepts and slopes."""
    p00, p01, p11 = scales.precision(h)
    down, (first, second) = curvature[..., None], score
    a00, a01, a11 = p00 + down[:, 0, 0], p01 + down[:, 0, 1], p11 + down[:, 1, 1]
    determinant = a00 * a11 - a01**2
    c00 = np.sqrt(a11 / determinant)
    centre = [(a11 * first - a01 * second) / determinant, (a00 * second - a01 * first) / determinant]
    return np.stack(centre), np.stack([c00, -a01 / determinant / c00, a11**-0.5])


def spread(
    h: np.ndarray, score: list[np.ndarray], curvature: np.ndarray, grid: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Effects at nodes t (q, K) for scores (g, S), q of (g, S, K), and log N(b; 0, TT') + log|C| there."""
    t00, t10, t11 = scales.triangle(h)
    if len(score) == 1:
        a00 = scales.precision(h)[0] + curvature[:, 0, 0, None]
        return of_intercepts(h, score[0] / a00, a00**-0.5, grid)
    centre, (c00, c10, c11) = of_pairs(h, score, curvature)
    effect = [stepped(centre[0], (c00, grid[0])), stepped(centre[1], (c10, grid[0]), (c11, grid[1]))]
    v0 = effect[0] / t00[:, None]
    v1 = (effect[1] - t10[:, None] * v0) / t11[:, None]
    return effect, np.log(c00 * c11 / (t00 * t11))[:, :, None] - 0.5 * (v0**2 + v1**2)


def of_intercepts(
    h: np.ndarray, centre: np.ndarray, c: np.ndarray, grid: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """As `spread` of intercepts, by centres and scales (g, S)."""
    sd, effect = scales.triangle(h)[0], stepped(centre, (c, grid[0]))
    return [effect], np.log(c / sd)[:, :, None] - 0.5 * (effect / sd[:, None]) ** 2


def stepped(centre: np.ndarray, *steps: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """centre + Σ c·t, (g, S, K), of centre and c (g, S) and t (K,); in memory nodes are outermost."""
    total = centre
    for c, t in steps:
        total = total + c * t[:, None, None]
    return np.moveaxis(total, 0, -1)
