"""flyrun gold and flyrun arena as a person types them."""

import json

import numpy as np
import pytest

from flyrun.cli.main import main
from flyrun.experiments.gold import store
from tests.stored import write_three_arms

BAD = {
    "gold bild mnist_7v9_sd1": "gold bild: no such action (did you mean build?)",
    "gold verify mnist": "no reference is called 'mnist'",
    "gold build": "gold build: NAME is missing; as in `flyrun gold build mnist_7v9_sd1`",
    "gold list few_events": "gold list: few_events is one word too many; as in `flyrun gold list`",
    "arena": "arena: NAME is missing; there are",
    "arena mnits": "arena mnits: no such arena (did you mean mnist?)",
    "arena score": "arena score: FILE.npz is missing",
    "arena score {tmp}/draws.npz": "arena score: --reference is missing; see `flyrun gold list`",
    "arena score {tmp}/none.npz reference=few_events": "none.npz: cannot be read (No such file or directory)",
    "arena score {tmp}/text.npz reference=few_events": "text.npz: is no .npz file of plain arrays",
    "arena score {tmp}/cut.npz reference=few_events": "cut.npz: is no .npz file of plain arrays",
    "arena score {tmp}/bare.npy reference=few_events": "bare.npy: is no .npz file of plain arrays",
    "arena score {tmp}/other.npz reference=few_events": "other.npz: has no array theta of numbers",
    "arena score {tmp}/wide.npz reference=few_events": "theta has shape (9, 5); reference few_events wants",
    "arena score {tmp}/nan.npz reference=few_events": "theta or log_weight holds values that are not numbers",
    "arena score {tmp}/few.npz reference=few_events": "log_weight has shape (3,), theta has 9 draws",
    "arena score {tmp}/draws.npz reference=few_events queries=none": "--queries none: must be above 0",
    "arena score {tmp}/draws.npz reference=few_events run=away results_dir={tmp}": "away",
}


@pytest.fixture
def files(tmp_path):
    draws = store.load("few_events").draws[:1000]
    np.savez(tmp_path / "draws.npz", theta=draws)
    np.savez(tmp_path / "other.npz", x=draws)
    np.savez(tmp_path / "wide.npz", theta=np.zeros((9, 5)))
    np.savez(tmp_path / "nan.npz", theta=np.full((9, 2), np.nan))
    np.savez(tmp_path / "few.npz", theta=np.zeros((9, 2)), log_weight=np.zeros(3))
    np.save(tmp_path / "bare.npy", draws)
    (tmp_path / "text.npz").write_text("theta")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "draws.npz").read_bytes()[:500])
    return tmp_path


@pytest.mark.parametrize("call", BAD)
def test_what_is_wrong_is_said_in_a_line(call, files, capsys):
    assert main(call.format(tmp=files).split()) == 2
    said = capsys.readouterr().err
    assert BAD[call] in said
    assert len(said.strip().splitlines()) == 1


def test_references_are_listed_and_verified(capsys):
    assert main(["gold"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in store.registry())
    assert main(["gold", "verify", "two_modes", "few_events"]) == 0
    assert capsys.readouterr().out.count("verified, of the data as they are here") == 2


def test_a_damaged_reference_is_refused(tmp_path, monkeypatch, capsys):
    content = (store.folder() / "few_events.npz").read_bytes()
    (tmp_path / "few_events.npz").write_bytes(content[:-10] + bytes(10))
    entry = store.entry("few_events")
    monkeypatch.setattr(store, "folder", lambda: tmp_path)
    monkeypatch.setattr(store, "registry", lambda: {"few_events": entry})
    assert main(["gold", "verify"]) == 2
    assert (
        "is not the registered file; restore it, or run `flyrun gold build few_events`"
        in capsys.readouterr().err
    )


def test_draws_of_any_tool_are_scored_and_listed_apart(files, capsys):
    run = write_three_arms(files / "runs/mine", seeds=1)
    info = json.loads((run / "run.json").read_text())
    for arm in info["arms"]:
        arm["settings"] = store.load("few_events").facts["settings"]
    (run / "run.json").write_text(json.dumps(info | {"arena": True}))
    words = [
        "arena",
        "score",
        str(files / "draws.npz"),
        "--reference",
        "few_events",
        "queries=5e6",
        "run=mine",
    ]
    assert main([*words, f"results_dir={files}"]) == 0
    printed = capsys.readouterr().out
    assert "1,000 draws worth" in printed
    assert "independent ones of few_events, for 5,000,000 queries by its maker's count" in printed
    assert json.loads((run / "scored.json").read_text()).keys() == {"draws.npz"}
    assert (
        main(
            [
                "arena",
                "score",
                str(files / "draws.npz"),
                "reference=german_credit",
                *words[-1:],
                f"results_dir={files}",
            ]
        )
        == 2
    )
    assert "run mine is held against few_events, not german_credit" in capsys.readouterr().err
