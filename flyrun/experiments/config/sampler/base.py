"""What every choice of sampler says of itself."""

from dataclasses import fields, replace
from typing import Any, ClassVar

from flyrun.ground.schema import Choice, build, chosen_by


class Sampler(Choice):
    """A method.

    `family` names the module whose `prepare(arm, folder)` makes it runnable; in another package it is by
    default where the class is.
    """

    family: ClassVar[str] = ""
    #: kinds of model that it serves
    kinds: ClassVar[tuple[str, ...]] = ("rows",)
    #: the models of these that it is for; none named: all
    models: ClassVar[tuple[str, ...]] = ()
    #: groups that its arms need besides the model's
    needs: ClassVar[tuple[str, ...]] = ()
    #: whether it takes models with numbers beside the coefficients, `Model.auxiliary`
    auxiliary: ClassVar[bool] = False
    #: whether the MAP must be found first
    at_map: ClassVar[bool] = False
    #: kind of worker process that runs it; cells of two kinds never share one. "jax64" has JAX in double
    #: precision; any other name is for a package whose library has switches of the whole process
    worker: ClassVar[str] = ""
    #: whether an arm alone is called after its bound
    of_bound: ClassVar[bool] = False

    def unfit(self, arm: Any) -> str:
        if arm.model.kind in self.kinds and arm.model.name in (self.models or (arm.model.name,)):
            return ""
        if self.models:
            return f"sampler={self.name} is not for model={arm.model.name}: choose model={self.models[0]}"
        fitting = chosen_by(
            "sampler", lambda cls: arm.model.kind in getattr(cls, "kinds", ()) and not cls().unfit(arm)
        )
        return f"sampler={self.name} and model={arm.model.name} do not fit: with this model choose {fitting}"

    @property
    def path_of_family(self) -> str:
        """Dotted name of the module that holds `prepare`."""
        return self.family or type(self).__module__

    @property
    def build(self) -> Any:
        """What makes its method: `build` of the module of its code, or the one of its name there."""
        builder = self.code.build
        return builder[self.name] if isinstance(builder, dict) else builder

    def needed_arms(self, arm: Any) -> tuple[Any, ...]:
        """Arms whose finished cells, of the same seed, this arm's method reads."""
        return ()

    def needed_at(self, arm: Any, seed: int) -> tuple[Any, ...]:
        """The same where they are others at each seed."""
        return self.needed_arms(arm)

    def inner_arms(self, arm: Any) -> tuple[Any, ...]:
        """Arms whose methods this arm's runs itself while it is set up."""
        return ()


def with_sampler(arm: Any, name: str, like: Any = None, **settings: Any) -> Any:
    """The arm with another sampler, set as `like` in what both have besides the name, and as `settings` say
    of what it has.

    Groups that it has no need of are left out, those that are missing as it suggests. ConfigError where it
    does not go with the rest.
    """
    plain: Any = build("sampler", {"name": name})
    names = {field.name for field in fields(plain)}
    shared = names & {field.name for field in fields(like or plain)} - {"name"}
    same = {key: getattr(like or plain, key) for key in shared}
    same |= {key: value for key, value in settings.items() if key in names}
    chosen, groups = [plain], {}
    for choice in chosen:
        for word in choice.suggests:
            group, _, option = word.partition("=")
            if group in ("bound", "brightness", "acceptance") and group not in groups:
                groups[group] = getattr(arm, group) or build(group, {"name": option})
                chosen.append(groups[group])
    idle = {group: None for group in ("bound", "brightness", "acceptance") if group not in plain.needs}
    return replace(arm, sampler=replace(plain, **same), **{**groups, **idle})
