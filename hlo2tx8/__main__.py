"""`python -m hlo2tx8` is the `hlo2tx8` command."""

import sys

from hlo2tx8.tools.main import main

if __name__ == "__main__":
    sys.exit(main())
