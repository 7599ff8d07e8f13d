"""Choices of where cells run: processes of this machine, or a Dask cluster."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from flyrun.config.schema import Choice, Section, option, ranged
from flyrun.errors import ConfigError


@option("executor", "local")
class Local(Choice):
    """A pool of processes on this machine; workers null means one per core, at most one per cell."""

    workers: int | None = ranged(None, at_least=1)
    start_method: Literal["spawn"] = "spawn"


@dataclass(frozen=True)
class Slurm(Section):
    """What SLURM is asked for, per job: its workers are processes of one core each."""

    group: ClassVar[str] = "executor.slurm"
    jobs: int | None = ranged(None, at_least=1)
    cores: int = ranged(1, at_least=1)
    memory: str = "4GB"
    walltime: str = "01:00:00"
    queue: str | None = None
    account: str | None = None
    directives: tuple[str, ...] = ()
    prologue: tuple[str, ...] = ()
    interface: str | None = None
    logs: str | None = None


@option("executor", "dask")
class Dask(Choice):
    """Workers of a Dask cluster: one on this machine, the one at `address`, or jobs that SLURM runs."""

    workers: int | None = ranged(None, at_least=1)
    address: str | None = None
    slurm: Slurm = field(default_factory=Slurm)

    def check(self) -> None:
        if self.slurm.jobs is None and self.slurm != Slurm():
            raise ConfigError("executor.slurm.jobs=null: must say how many jobs SLURM runs, such as 4")
        if self.address is not None and self.slurm.jobs is not None:
            raise ConfigError(
                f"executor.address={self.address} and executor.slurm.jobs={self.slurm.jobs} do not go "
                "together: choose the cluster that runs or the one that SLURM starts"
            )
        if self.workers is not None and (self.address is not None or self.slurm.jobs is not None):
            raise ConfigError(
                f"executor.workers={self.workers}: is for a cluster on this machine; a running one has its "
                "own, SLURM's are executor.slurm.jobs × executor.slurm.cores"
            )
