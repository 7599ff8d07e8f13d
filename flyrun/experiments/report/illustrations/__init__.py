"""Figures that an experiment asks for by name: `figures: [name]` in its YAML is the file <name>.py here.

Such a file has FIGURES, figure -> plot; plot(run, run_dir) returns a matplotlib Figure, or None where the run
has nothing to show yet; the first paragraph of its docstring is the caption. What serves one figure alone
lies beside it in a folder.
"""
