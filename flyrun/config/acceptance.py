"""Choices of how proposals are accepted."""

from typing import ClassVar

from flyrun.config.schema import Choice, option


class Acceptance(Choice):
    """A rule that accepts or refuses proposals."""

    home: ClassVar[str] = "flyrun.samplers.chain.acceptance"


@option("acceptance", "exact")
class Exact(Acceptance):
    """Metropolis and Hastings' rule, by all that the target evaluates."""

    neutral: ClassVar[bool] = True
    idle: ClassVar[bool] = True
