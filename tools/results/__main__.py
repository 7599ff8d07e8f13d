"""Write every table and page that results/measured decides: `make results`."""

import sys

from flyrun.ground import files
from flyrun.ground.errors import FlyrunError
from tools.results.pages import ROOT, current


def main() -> int:
    """Write the pages that are not current; 2 where one cannot be made."""
    try:
        pages = current()
    except FlyrunError as error:
        print(f"make results: {error}", file=sys.stderr)
        return 2
    for path, text in pages.items():
        if not path.exists() or path.read_text("utf-8") != text:
            files.write_text(path, text)
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
