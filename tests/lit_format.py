"""lit's test format: RUN lines of the usual form run in lit's worker process (run_lines.py), any other in a shell."""

from pathlib import Path

import lit.formats
import lit.Test
from run_lines import OtherFormError, run_test


class InProcessTest(lit.formats.ShTest):
    """`lit --param shell=1` runs everything in a shell, a process for each command."""

    def execute(self, test: lit.Test.Test, lit_config: object) -> object:
        try:
            failure = run_test(Path(test.getSourcePath()))
        except OtherFormError:
            return super().execute(test, lit_config)
        if failure is None:
            return lit.Test.Result(lit.Test.PASS, "")
        return lit.Test.Result(lit.Test.FAIL, str(failure))
