"""The family of samplers that draw many variables at once: what an arm's model asks for."""

from pathlib import Path

from flyrun.experiments.samplers.hogwild.gaussian_hogwild import HogwildGaussian
from flyrun.experiments.samplers.hogwild.graph_hogwild import HogwildSites
from flyrun.experiments.samplers.method import Arm, Method


def prepare(arm: Arm, folder: Path) -> Method:
    """Bind an arm's model to its sampler; ConfigError, one line, where they do not go together."""
    return HogwildGaussian(arm) if arm.model.kind == "precision" else HogwildSites(arm)
