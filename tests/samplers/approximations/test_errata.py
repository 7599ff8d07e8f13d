"""Formulas of Angelino, Johnson & Adams (2016), chapter 5, that fail as they are printed.

Elsewhere: equation (5.49), test_streaming_vb; Algorithm 18, test_black_box; Algorithm 22, test_stochastic;
(2.52) and (2.53), entropies without their logarithms, test_gradients. Of notation alone: (5.5), (5.31),
(5.38), (5.46), after (5.48), Algorithm 4's reference. Not computed here: (5.56). What Algorithms 3 and 21
leave out, proper cavities and damping: test_sites, test_parallel_ep.
"""

import numpy as np

from tests.samplers.approximations.exact import method_of

RNG = np.random.default_rng(0)


def test_algorithm_17_needs_the_count_beside_the_statistic(tmp_path):
    """(5.12) to (5.19) have t_zy alone, (5.11) has (t_zy, 1): without it the precision stays the prior's."""
    words = ("sampler=svi_jaakkola_jordan", "sampler.batch=60", "sampler.decay=0", "sampler.average=0")
    method = method_of(tmp_path, *words)
    state = method.init(0)
    found = method.of_batch(state["precision"], state["linear"], np.arange(60))
    mended = method.result(method.advance(state, 1)[0])["covariance"]
    np.testing.assert_allclose(np.linalg.inv(mended), method.prior_precision + found.precision, rtol=1e-12)
    printed = np.linalg.inv(method.prior_precision)
    assert (np.diag(printed) > 3 * np.diag(mended)).all()


def test_the_entropys_term_of_equation_5_34_is_noise():
    """−E log q times the score has mean zero: dropped, the gradient is the same and quieter."""
    draws = RNG.standard_normal((4_000, 10))
    score, value = draws, 0.3 * draws - 0.045  # log N(0.3, 1) − log q, q = N(0, 1), by its mean
    entropy = 0.5 * np.log(2 * np.pi * np.e)
    mended, printed = ((score * (value + extra)).mean(axis=1) for extra in (0.0, entropy))
    for each in (mended, printed):
        assert abs(each.mean() - 0.3) < 4 * each.std() / np.sqrt(4_000)
    assert printed.std() > 2 * mended.std()
