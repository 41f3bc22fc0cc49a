"""The modelled time of a program: before a run with assumed trip counts where data decide them, after it with those of the run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """Of a program on a chip; `decisions` are those of its last run, if it had any to make."""

    program: Program
    chip: Chip
    decisions: Decisions | None = None
    _measured: tuple[Decisions, Report] | None = field(default=None, repr=False)

    @property
    def report(self) -> Report:
        """Of the last run, or of any as far as that is known."""
        decisions = self.decisions
        if decisions is None:
            return self.assumed
        if self._measured is None or self._measured[0] is not decisions:
            self._measured = decisions, model(self.program, self.chip, decisions=decisions)
        return self._measured[1]

    @cached_property
    def assumed(self) -> Report:
        """Without a run."""
        return model(self.program, self.chip)

    @cached_property
    def deciding(self) -> tuple[int, ...]:
        """What a run has to keep, see `deciding_records`."""
        opcodes = self.program.code[:, 0] & np.uint64(0xFFFF)
        if not (opcodes == KcLoadScalar.OPCODE).any():
            return ()
        try:
            return deciding_records(self.program, self.chip)
        except EncodingError:  # the run says what is wrong
            return ()

    def run(self, emulator: Emulator, inputs: Sequence[np.ndarray], progress: Progress | None) -> list[np.ndarray]:
        """As Emulator.run."""
        if not self.deciding:
            return emulator.run(self.program, inputs, progress)
        outputs, self.decisions = emulator.run_with_decisions(self.program, inputs, self.deciding, progress)
        return outputs
