"""``python -m muser``: the same as the ``muser`` command."""

from __future__ import annotations

import sys

from muser.cli import main

if __name__ == "__main__":
    sys.exit(main())
