"""What the quadrature of many rows spends its time on: sums over groups of rows, and over nodes."""

import numpy as np

from flyrun.ground.numerics.compiled import inline_jit, jit
from flyrun.ground.numerics.vector_math import exp_bounded, exp_negative, log_positive


@jit
def row_sums(starts, ends, y, weights, eta, linear, mean):
    """linear += Σ y·η and mean += Σ weights·e^η, (g, S), over each group's rows; e^η in place of η, (n, S).

    y, weights: (n,).
    """
    for group in range(starts.shape[0]):
        for row in range(starts[group], ends[group]):
            for s in range(eta.shape[1]):
                linear[group, s] += y[row] * eta[row, s]
            for s in range(eta.shape[1]):
                eta[row, s] = exp_bounded(eta[row, s])
            for s in range(eta.shape[1]):
                mean[group, s] += weights[row] * eta[row, s]


@inline_jit
def _add_logs(odds, first, last, factor, together, product, out):
    """out (K, S) += Σ log(1 + odds·factor) over rows from first to last. factor: (K, S)."""
    nodes, draws = product.shape
    product[:] = 1.0
    count = 0
    for row in range(first, last):
        for k in range(nodes):
            for s in range(draws):
                product[k, s] *= 1.0 + odds[row, s] * factor[k, s]
        count += 1
        if count == together or row == last - 1:
            for k in range(nodes):
                for s in range(draws):
                    out[k, s] += log_positive(product[k, s])
                    product[k, s] = 1.0
            count = 0


@jit
def log_products(starts, ends, odds, factor, together, product, out):
    """out (g, K, S) += Σ log(1 + odds·factor) over each group's rows, from starts to ends, (g,).

    odds: (n, S); factor: (g, K, S); product: (K, S), to work in; together: how many rows' factors are
    multiplied before a logarithm is taken.
    """
    for group in range(starts.shape[0]):
        _add_logs(odds, starts[group], ends[group], factor[group], together, product, out[group])


@jit
def log_integrals(
    starts, ends, odds, together, mean, linear, level, centre, scale, precision, nodes, log_weight, work, out
):
    """out (S,) += Σ_g level + log Σ_k exp(log_weight + linear·b − ½ precision·b² − mean·e^b − L), by groups.

    b = centre + scale·nodes; L = Σ log(1 + odds·e^b); level, mean, centre, scale: (g, S); linear: (g,);
    precision: (S,); nodes, log_weight: (K,); work: (4, K, S), to work in; others: as in `log_products`.
    """
    factor, product, logs, value = work[0], work[1], work[2], work[3]
    top, total = product[0], factor[0]  # when these are done with
    for group in range(starts.shape[0]):
        logs[:] = 0.0
        # loops over few arrays each: compilers make vector instructions of those that they see not to overlap
        for k in range(nodes.shape[0]):
            for s in range(out.shape[0]):
                value[k, s] = centre[group, s] + scale[group, s] * nodes[k]
            for s in range(out.shape[0]):
                factor[k, s] = exp_bounded(value[k, s])
            for s in range(out.shape[0]):
                value[k, s] *= linear[group] - 0.5 * precision[s] * value[k, s]
            for s in range(out.shape[0]):
                value[k, s] += log_weight[k] - mean[group, s] * factor[k, s]
        _add_logs(odds, starts[group], ends[group], factor, together, product, logs)
        top[:] = -np.inf
        for k in range(nodes.shape[0]):
            for s in range(out.shape[0]):
                value[k, s] -= logs[k, s]
                top[s] = max(top[s], value[k, s])
        total[:] = 0.0
        for k in range(nodes.shape[0]):
            for s in range(out.shape[0]):
                total[s] += exp_negative(value[k, s] - top[s])
        for s in range(out.shape[0]):
            out[s] += level[group, s] + (top[s] + log_positive(total[s]))


@jit
def pair_integrals(
    starts,
    ends,
    eta,
    z,
    y,
    weights,
    counts,
    together,
    centre,
    root,
    inverse,
    level,
    nodes,
    log_weight,
    up,
    over,
    product,
    logs,
    out,
):
    """out (S,) += Σ_g level + log Σ exp(log_weight + Σ y·p − ½|v|² − L) over pairs of nodes t, by groups.

    p = η + b0 + z·b1; b0 = centre0 + root0·t0, b1 = centre1 + root1·t0 + root2·t1; v0 = b0·inverse0,
    v1 = (b1 − inverse1·b0)·inverse2; L = Σ weights·e^p where these are counts, else Σ log(1 + e^p). e^p is a
    product of three: of the centre, of t0 and of t1. eta (n, S) is overwritten; nodes: (k,), −t with each t;
    log_weight: (k²,); up, over (k, S), product, logs (k², S): to work in; others: as in `log_integrals`.
    """
    several, top, total = nodes.shape[0], up[0], over[0]
    half = several // 2
    for group in range(starts.shape[0]):
        logs[:] = 0.0
        product[:] = 1.0
        count, of_intercept, of_slope = 0, 0.0, 0.0
        for row in range(starts[group], ends[group]):
            of_intercept += y[row]
            of_slope += y[row] * z[row]
            for s in range(out.shape[0]):
                level[group, s] += y[row] * eta[row, s]
            for s in range(out.shape[0]):
                eta[row, s] = exp_bounded(eta[row, s] + centre[0, group, s] + z[row] * centre[1, group, s])
            for s in range(out.shape[0]):
                up[half, s] = eta[row, s]
                over[half, s] = 1.0
            for k in range(half):
                for s in range(out.shape[0]):
                    step = exp_bounded(nodes[k] * (root[0, group, s] + z[row] * root[1, group, s]))
                    up[k, s] = eta[row, s] * step
                    up[several - 1 - k, s] = eta[row, s] / step
                for s in range(out.shape[0]):
                    step = exp_bounded(nodes[k] * z[row] * root[2, group, s])
                    over[k, s] = step
                    over[several - 1 - k, s] = 1.0 / step
            if counts:
                for k in range(several * several):
                    for s in range(out.shape[0]):
                        logs[k, s] += weights[row] * up[k // several, s] * over[k % several, s]
                continue
            for k in range(several * several):
                for s in range(out.shape[0]):
                    product[k, s] *= 1.0 + up[k // several, s] * over[k % several, s]
            count += 1
            if count == together or row == ends[group] - 1:
                for k in range(several * several):
                    for s in range(out.shape[0]):
                        logs[k, s] += log_positive(product[k, s])
                        product[k, s] = 1.0
                count = 0
        top[:] = -np.inf
        for k in range(several * several):
            first, second = nodes[k // several], nodes[k % several]
            for s in range(out.shape[0]):
                b0 = centre[0, group, s] + root[0, group, s] * first
                b1 = centre[1, group, s] + root[1, group, s] * first + root[2, group, s] * second
                v0, v1 = b0 * inverse[0, s], (b1 - inverse[1, s] * b0) * inverse[2, s]
                linear = of_intercept * b0 + of_slope * b1 - 0.5 * (v0 * v0 + v1 * v1)
                logs[k, s] = log_weight[k] + linear - logs[k, s]
                top[s] = max(top[s], logs[k, s])
        total[:] = 0.0
        for k in range(several * several):
            for s in range(out.shape[0]):
                total[s] += exp_negative(logs[k, s] - top[s])
        for s in range(out.shape[0]):
            out[s] += level[group, s] + (top[s] + log_positive(total[s]))
