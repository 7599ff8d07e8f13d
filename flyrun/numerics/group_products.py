"""The sums over groups of rows that the quadrature of many rows spends its time on."""

import math

from flyrun.numerics.compiled import jit


@jit
def log_products(starts, ends, odds, factor, together, product, out):
    """out (K, g, S) += Σ log(1 + odds·factor) over each group's rows, from starts to ends, (g,).

    odds: (n, S); factor: (K, g, S); product: (K, S), to work in; together: how many rows' factors are
    multiplied before a logarithm is taken.
    """
    nodes, draws = product.shape
    for group in range(starts.shape[0]):
        product[:] = 1.0
        count = 0
        for row in range(starts[group], ends[group]):
            for k in range(nodes):
                for s in range(draws):
                    product[k, s] *= 1.0 + odds[row, s] * factor[k, group, s]
            count += 1
            if count == together or row == ends[group] - 1:
                for k in range(nodes):
                    for s in range(draws):
                        out[k, group, s] += math.log(product[k, s])
                        product[k, s] = 1.0
                count = 0
