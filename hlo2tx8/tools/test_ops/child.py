"""The child of `hlo2tx8 test-ops`: `python -m hlo2tx8.tools.test_ops.child SUITE` answers cases of a suite."""

import sys

from hlo2tx8.tools.test_ops.cases import serve
from hlo2tx8.tools.test_ops.suites import suite_named

if __name__ == "__main__":
    serve(suite_named(sys.argv[1]).answer)
