"""Choices of where cells run: processes of this machine, or a Dask cluster."""

from dataclasses import dataclass
from typing import ClassVar

from flyrun.ground.errors import ConfigError
from flyrun.ground.schema import Choice, Section, option, part, setting


@option("executor", "local")
class Local(Choice):
    """Processes on this machine, by default one per core and at most one per cell."""

    workers: int | None = setting(None, "null: one per core", at_least=1)


@dataclass(frozen=True)
class Slurm(Section):
    """What SLURM is asked for, per job: its workers are processes of one core each."""

    group: ClassVar[str] = "executor.slurm"
    jobs: int | None = setting(None, "how many jobs SLURM is asked for; null: no SLURM", at_least=1)
    cores: int = setting(1, "workers in a job", at_least=1)
    memory: str = setting("4GB", "of a job")
    walltime: str = setting("01:00:00", "longest time of a job, hours:minutes:seconds")
    queue: str | None = setting(None, "partition of SLURM; null: its default")
    account: str | None = setting(None, "account that SLURM charges; null: its default")
    directives: tuple[str, ...] = setting((), 'further #SBATCH lines, as in ["--constraint=haswell"]')
    prologue: tuple[str, ...] = setting(
        (), "lines of shell before the workers start, as in [module load python]"
    )
    interface: str | None = setting(None, "network interface that nodes and this machine share, as in ib0")
    logs: str | None = setting(None, "folder for SLURM's outputs")


@option("executor", "dask")
class Dask(Choice):
    """Workers of a Dask cluster: on this machine, at `address`, or jobs that SLURM runs (flyrun[dask])."""

    workers: int | None = setting(None, "of a cluster on this machine; null: one per core", at_least=1)
    address: str | None = setting(None, "of a scheduler that runs, as in tcp://host:8786")
    slurm: Slurm = part(Slurm, "what SLURM is asked for, per job")

    @property
    def open_to_all(self) -> str:
        """What speaks against the address; "" where nothing does."""
        scheme, _, place = (self.address or "").rpartition("://")
        host = place.rpartition(":")[0].strip("[]")
        if self.address is None or scheme == "tls" or host in ("localhost", "::1") or host.startswith("127."):
            return ""
        return (
            f"executor.address={self.address}: whoever reaches this scheduler can run code on its workers; "
            "where the network is not yours alone, start it with certificates and name it by tls://"
        )

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
