"""A stand-in for SLURM on this machine: sbatch, squeue, sacct, scancel and srun, by the name it is called by.

Partition `nowhere` is refused; jobs for `full` wait for ever, for `kills` end at once, for `loses`
are forgotten. FAKE_SLURM is the folder of the jobs.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

TOOLS = ("sbatch", "squeue", "sacct", "scancel", "srun")
FOLDER = Path(os.environ.get("FAKE_SLURM", "."))


def sbatch(script):
    text = Path(script).read_text()
    partition, array = (
        re.search(rf"#SBATCH {key}[ =](\S+)", text) for key in ("(?:-p|--partition)", "--array")
    )
    if partition and partition[1] == "nowhere":
        sys.exit(
            "sbatch: error: invalid partition specified: nowhere\nsbatch: error: Batch job submission failed"
        )
    job = str(os.getpid())
    last = int(re.match(r"\d+-(\d+)", array[1])[1]) if array else 0
    for task in range(last + 1):
        name, given = (f"{job}_{task}", {"SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": str(task)})
        name, given = (name, given) if array else (job, {})
        process = 0
        if not (partition and partition[1] == "full"):
            copy = FOLDER / f"{name}.sh"
            copy.write_text("exit 1" if partition and partition[1] == "kills" else text)
            environment = {**os.environ, **given, "SLURM_JOB_ID": job, "SLURM_NTASKS": "1"}
            with open(FOLDER / f"{name}.out", "w") as output:
                process = subprocess.Popen(
                    ["bash", copy],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                ).pid
        (FOLDER / f"{name}.job").write_text(str(process))
        if partition and partition[1] == "loses":
            os.killpg(process, signal.SIGKILL)
            (FOLDER / f"{name}.job").unlink()
    print(f"Submitted batch job {job}")


def states(jobs):
    """Name, state and reason of each job that waits or runs."""
    for path in sorted(FOLDER.glob("*.job")):
        process = int(path.read_text())
        if path.stem.partition("_")[0] in jobs:
            if not process:
                yield path.stem, "PENDING", "Resources"
            elif Path(f"/proc/{process}").exists():
                yield path.stem, "RUNNING", "None"
            else:
                yield path.stem, "FAILED", "NonZeroExitCode"


def squeue(*words):
    jobs = next(word.partition("=")[2].split(",") for word in words if word.startswith("--jobs="))
    there = [f"{state} {reason}" for _, state, reason in states(jobs) if state != "FAILED"]
    if not there:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print("\n".join(there))


def sacct(*words):
    print("JobID|State|NodeList")
    for name, state, _ in states(words):
        print(f"{name}|{state}|here")


def scancel(*words):
    for path in FOLDER.glob("*.job"):
        if path.stem in words or path.stem.partition("_")[0] in words:
            if process := int(path.read_text()):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGTERM)
            path.unlink()


def srun(*words):
    command = list(words)[next(i for i, word in enumerate(words) if word == sys.executable) :]
    os.execv(command[0], command)


def put_on_path(folder, monkeypatch):
    """Make the tools, with the folder of their jobs, found by what this process starts."""
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).write_text(f"#!{sys.executable} -S\n{Path(__file__).read_text()}")
        (folder / tool).chmod(0o755)
    monkeypatch.setenv("FAKE_SLURM", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return folder


def kill_jobs(folder):
    """End all jobs that run, as SLURM does where memory or time is over."""
    for path in folder.glob("*.job"):
        os.killpg(int(path.read_text()), signal.SIGKILL)


if __name__ == "__main__" and Path(sys.argv[0]).name in TOOLS:
    globals()[Path(sys.argv[0]).name](*sys.argv[1:])
