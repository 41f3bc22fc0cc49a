"""The modelled time of a program. Trip counts and branches that depend on data are assumed before a run, and those of the run
afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hlo2tx8.device.chip import Chip
from hlo2tx8.device.decisions import Decisions
from hlo2tx8.device.emulator import Emulator, Progress
from hlo2tx8.device.isa.encoding import EncodingError
from hlo2tx8.device.isa.kc_control import KcLoadScalar
from hlo2tx8.device.program import Program
from hlo2tx8.device.timing import Report, deciding_records, model


@dataclass
class ModelledTime:
    """The modelled time of one program on one chip; `decisions` are the trip counts and branches of the last run, None before
    it.
    """

    program: Program
    chip: Chip
    decisions: Decisions | None = None
    _measured: tuple[Decisions, Report] | None = field(default=None, repr=False)
    _against: tuple[Report, Report] | None = field(default=None, repr=False)

    @property
    def report(self) -> Report:
        """The report for the decisions of the last run, or for assumed ones if there was no run."""
        decisions = self.decisions
        if decisions is None:
            return self.assumed
        if self._measured is None or self._measured[0] is not decisions:
            self._measured = decisions, model(self.program, self.chip, decisions=decisions)
        return self._measured[1]

    def report_against(self, bound_cycles: float) -> Report:
        """The report, which says how much more it is than so many cycles."""
        if self._against is None or self._against[0] is not self.report:
            self._against = self.report, replace(self.report, bound_cycles=bound_cycles)
        return self._against[1]

    @cached_property
    def assumed(self) -> Report:
        """The report with assumed trip counts: a loop whose number of turns depends on data counts one turn."""
        return model(self.program, self.chip)

    @cached_property
    def deciding(self) -> tuple[int, ...]:
        """The records whose loaded values decide trip counts and branches, which a run must keep; see `deciding_records`."""
        opcodes = self.program.code[:, 0] & np.uint64(0xFFFF)
        if not (opcodes == KcLoadScalar.OPCODE).any():
            return ()
        try:
            return deciding_records(self.program, self.chip)
        except EncodingError:  # the run says what is wrong
            return ()

    def run(
        self,
        emulator: Emulator,
        inputs: Sequence[np.ndarray],
        progress: Progress | None,
        outputs: Sequence[np.ndarray] | None = None,
    ) -> list[np.ndarray]:
        """Run the program as `Emulator.run` does, and keep the decisions for the next report."""
        if not self.deciding:
            return emulator.run(self.program, inputs, progress, outputs)
        found, self.decisions = emulator.run_with_decisions(self.program, inputs, self.deciding, progress, outputs)
        return found
