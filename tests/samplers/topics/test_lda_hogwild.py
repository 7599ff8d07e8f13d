"""AD-LDA: its counts stay those of all tokens, one shard is collapsed Gibbs sampling, many are not."""

import numpy as np
import pytest

from flyrun.experiments.samplers.topics.lda_gibbs import CollapsedGibbs
from flyrun.ground.errors import ConfigError
from flyrun.ground.numerics.state import generator
from tests.samplers.hogwild.arms import method, same, steps

SMALL = ("n_documents=60", "n_valid=5", "n_test=20", "n_words=80", "n_topics=4")
WORDS = ("dataset=topic_corpus", "model=lda", "model.n_topics=4", "protocol.burn_in=0", "protocol.init=zero")
WORDS += tuple(f"dataset.{one}" for one in SMALL)


def hogwild(shards, late=0):
    return method(*WORDS, "sampler=lda_hogwild", f"sampler.shards={shards}", f"sampler.late={late}")


@pytest.mark.thorough
@pytest.mark.parametrize("shards", [1, 4, 60])
def test_counts_stay_those_of_all_tokens(shards):
    made = hogwild(shards)
    state = made.init(0)
    z, rng = state["z"].copy(), generator(state["rng"])
    counts = made.counted(z)
    for _ in range(5):
        counts = made.merged(rng, z, counts, [counts] * shards)
        assert counts.min() >= 0
        assert counts.sum() == made.train.n_tokens
        assert np.array_equal(counts, made.counted(z))


@pytest.mark.thorough
def test_one_shard_is_collapsed_gibbs_and_four_are_not():
    for shards in (1, 4):
        made = hogwild(shards)
        state = made.init(0)
        ours = {name: array.copy() for name, array in state.items()}
        theirs = {name: array.copy() for name, array in state.items()}
        made.learn(generator(state["rng"]), ours, np.empty(0), 0)
        CollapsedGibbs.learn(made, generator(state["rng"]), theirs, np.empty(0), 0)
        assert same(ours, theirs) == (shards == 1)
        assert made.facts().exact == (shards == 1)


@pytest.mark.thorough
def test_counts_that_come_late_are_the_others_alone():
    """Those of a shard's own tokens are as they are; were these late, too, tokens would go missing."""
    made = hogwild(4, late=3)
    rng, state = np.random.default_rng(0), made.init(0)
    for t in range(8):
        z, past = state["z"], state["past"]
        for shard, counts in enumerate(made.late(np.random.default_rng(t), state, t)):
            own = slice(*made.tokens[shard : shard + 2])
            others = counts - made.counted(z, own)
            ago = [made.counted(one) - made.counted(one, own) for one in past]
            assert any(np.array_equal(others, one) for one in ago)
            assert counts.sum() == made.train.n_tokens
        made.learn(rng, state, np.empty(0), t)
        assert np.array_equal(state["past"][(t + 1) % 4], state["z"])
    own = slice(*made.tokens[:2])
    whole = [made.counted(one) - made.counted(state["z"], own) for one in state["past"]]
    assert min(one.min() for one in whole) < 0, "tokens that moved since are taken from where they were not"


@pytest.mark.thorough
def test_late_counts_of_one_shard_change_nothing_and_of_four_little():
    """One shard's are its own; of four the perplexity is that of collapsed Gibbs sampling."""
    found = {}
    for shards, late in ((1, 0), (1, 5), (4, 5)):
        made = hogwild(shards, late)
        state, _ = made.advance(made.init(0), 60)
        found[shards, late] = float(made.estimates(state)["perplexity"])
    assert found[1, 5] == pytest.approx(found[1, 0], rel=0.03)
    assert found[4, 5] == pytest.approx(found[1, 0], rel=0.05)


@pytest.mark.parametrize("late", [0, 2])
def test_topics_are_learnt_with_the_same_bits_wherever_it_is_cut(late):
    made = hogwild(6, late)
    whole, parts = steps(made, 40), steps(made, 40, cuts=(3, 17))
    assert same(whole[0], parts[0])
    assert whole[1]["span"][0] < 0.25 * whole[1]["queries"][0]
    before, after = (made.estimates(state)["perplexity"] for state in (made.init(0), whole[0]))
    assert after < 0.5 * before


def test_more_shards_than_documents():
    with pytest.raises(ConfigError, match=r"^sampler\.shards=61: .* choose sampler\.shards=60 or fewer$"):
        hogwild(61)
