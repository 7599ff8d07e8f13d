"""A posterior by bambi at its defaults but for MORE: who samples, pymc or nutpie."""

import arviz_stats
import bambi
from asked import MODEL, MORE, answer, columns

FAMILIES = {"logistic": "bernoulli", "negative_binomial": "negativebinomial"}
features, y = columns()
model = bambi.Model(f"y ~ {' + '.join(features)}", features.assign(y=y), family=FAMILIES.get(MODEL, MODEL))
found = model.fit(inference_method=MORE[0], progressbar=False).posterior
draws = [found[name] for name in ("Intercept", *features)]
answer(
    mean=[float(one.mean()) for one in draws],
    sd=[float(one.std()) for one in draws],
    ess=min(float(arviz_stats.ess(one.values, sample_dims=None)) for one in draws),
)
