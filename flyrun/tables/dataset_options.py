"""Choices of data: rows of features with a target, or graphs, or documents."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import Choice, chosen_by, setting, show


class Dataset(Choice):
    """Data. `kind` says what a model finds in them: rows, weights of pairs, tables, or bare pairs."""

    home: ClassVar[str] = "flyrun.experiments.data"
    kind: ClassVar[str] = "rows"
    #: its file, the part of its rows, whether columns are scaled: for those that have such settings
    path: str | None = None
    shard: tuple[int, int] | None = None
    standardize: bool | None = None

    @property
    def free(self) -> tuple[str, ...]:
        """Where a file lies: what is in it has a digest of its own, and is the same wherever it lies."""
        return ("path",)

    def unfit(self, arm: Any) -> str:
        wanted = arm.model.reads
        if self.kind == wanted:
            return ""
        fitting = chosen_by("dataset", lambda cls: getattr(cls, "kind", "") == wanted)
        return f"dataset={self.name} and model={arm.model.name} do not fit: with this model choose {fitting}"


@dataclass(frozen=True)
class Rows(Dataset):
    """Rows with a target, of which shard=[k,J] is part k, from 0, of J: a subposterior's data.

    shards_by: how rows are dealt to shards, shuffled by shards_seed or in their order. shards_power: what is
    raised so that the J subposteriors go together: the prior to 1/J, for densities' products, or the
    likelihood to J, for averages of quantiles or of measures.
    """

    shard: tuple[int, int] | None = setting(
        None, "[k,J]: part k, from 0, of J parts of the rows", shared=True, at_least=0
    )
    shards_by: Literal["random", "order"] = setting(
        "random", "how rows are dealt to shards: random, or order: runs of rows as they stand", shared=True
    )
    shards_seed: int = setting(0, "seed of the shuffle", shared=True, at_least=0)
    shards_power: Literal["prior", "likelihood"] = setting(
        "prior", "what is raised: prior, to 1/J, or likelihood, to J", shared=True
    )

    def __post_init__(self) -> None:
        """Refuse a shard that there is not."""
        super().__post_init__()
        if self.shard is not None and self.shard[0] >= self.shard[1]:
            example = [0, max(self.shard[1], 1)]
            raise ConfigError(
                f"dataset.shard={show(self.shard)}: must be [k,J], part k of J counted from 0, such as "
                f"{show(example)}"
            )

    def settings(self) -> dict[str, Any]:
        """As in the base class; of whole data nothing on shards."""
        found = super().settings()
        if self.shard is not None:
            return found
        return {key: value for key, value in found.items() if not key.startswith("shard")}

    def unfit(self, arm: Any) -> str:
        """As in the base class; likelihoods are raised where all of them are evaluated."""
        if self.shard is not None and self.shards_power == "likelihood":
            plain = arm.bound is not None and not arm.bound.firefly
            if not plain or (arm.acceptance is not None and arm.acceptance.name != "exact"):
                return (
                    f"dataset.shards_power=likelihood: sampler={arm.sampler.name} as it is set up does not "
                    "raise likelihoods; choose sampler=hmc bound=none"
                )
        return super().unfit(arm)
