"""Minutes of tests by folder, from JUnit files that pytest wrote: python -m tools.minutes FILE..."""

import sys
from collections import defaultdict
from xml.etree import ElementTree


def main(paths: list[str]) -> None:
    """Print minutes and number of tests of every folder, the longest first, then of all.

    Tests that ran side by side count in full: on two cores a run takes about half of the sum.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            names = case.get("classname", "").split(".")
            module = next((k for k, name in enumerate(names) if name.startswith("test_")), len(names))
            seconds["/".join(names[:module])].append(float(case.get("time", 0)))
    rows = sorted(seconds.items(), key=lambda row: -sum(row[1]))
    print("minutes  tests  folder")
    for folder, times in [*rows, ("all", [time for _, of_one in rows for time in of_one])]:
        print(f"{sum(times) / 60:7.2f} {len(times):6d}  {folder}")


if __name__ == "__main__":
    main(sys.argv[1:])
