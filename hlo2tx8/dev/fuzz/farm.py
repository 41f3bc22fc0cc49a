"""Many seeds on several processes: what one of them dies of is a finding, and another takes its place.

seeds ──▶ `fuzz.worker` on a TaskFarm ──▶ {seconds}    all is well
                                      ──▶ {seconds, run, kind, message, module, more_seconds}    a failure, then {module}, smaller
          dies ──▶ kind "crash", with the last lines of its stderr
          says nothing for longer than the limit ──▶ kind "hang", and it is killed
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hlo2tx8.dev.fuzz.worker import case_of, write_module
from hlo2tx8.sweep.child import Answered
from hlo2tx8.sweep.farm import TaskFarm


@dataclass(frozen=True)
class Finding:
    """A seed that failed: in which run, how, and the module that shows it."""

    seed: int
    run: str
    kind: str
    message: str
    module: str


@dataclass(frozen=True)
class Plan:
    """Which seeds, how many at once and where, and what each may take."""

    seeds: Sequence[int]
    jobs: int
    limit: float
    write: Path
    grace: float = 30.0  # a worker over its limit tells so itself; this much later it is taken to be stuck
    cpu: bool = True
    control: bool = True
    scheduler: str = ""

    def arguments(self) -> list[str]:
        """How Python starts a worker."""
        switches = ["--cpu" if self.cpu else "--no-cpu", "--control" if self.control else "--no-control"]
        return ["-m", "hlo2tx8.dev.fuzz.worker", *switches, f"--limit={self.limit}", f"--write={self.write}"]


@dataclass
class Farm:
    """Runs a plan. `report` is told each finding, twice where a smaller module was found."""

    plan: Plan
    report: Callable[[Finding], None]
    done: dict[int, float] = field(default_factory=dict[int, float])
    findings: dict[int, Finding] = field(default_factory=dict[int, Finding])

    def run(self, tick: Callable[["Farm"], None] = lambda _: None) -> None:
        """All seeds; `tick` is called behind each. Whatever ends this ends the workers. InputError: a scheduler does not answer."""
        plan = self.plan
        jobs = max(min(plan.jobs, len(plan.seeds)), 1)
        with TaskFarm(plan.arguments(), jobs=jobs, scheduler=plan.scheduler, limit=plan.limit + plan.grace) as farm:
            for number, answered in farm.run(plan.seeds):
                self._hear(plan.seeds[number], answered)
                tick(self)

    def _hear(self, seed: int, answered: Answered) -> None:
        first: dict[str, Any] = answered.answers[0] if answered.answers else {}
        if "kind" in first:
            finding = Finding(seed, first["run"], first["kind"], first["message"], first["module"])
            if seed not in self.findings:
                self._found(finding)
            if len(answered.answers) > 1:
                self._found(replace(finding, module=answered.answers[1].get("module", finding.module)))
        elif lost := answered.lost or first.get("lost", ""):
            # A worker died or is stuck: that is what its seed did.
            is_hang = lost.startswith("no answer within")
            kind, message = ("hang", f"no answer within {self.plan.limit:g} s") if is_hang else ("crash", lost)
            path = self.plan.write / f"seed_{seed}.hlo"
            case = case_of(seed, control=self.plan.control)
            self._found(Finding(seed, "process", kind, message, str(write_module(case, f"{kind}: {message}", path))))
        if answered.is_last:
            self.done[seed] = float(first.get("seconds", self.plan.limit))

    def _found(self, finding: Finding) -> None:
        self.findings[finding.seed] = finding
        self.report(finding)

    def result(self) -> dict[str, Any]:
        """What is known so far, for a file: seeds and failures by seed, and what took longest."""
        slowest = sorted(self.done, key=lambda seed: (-self.done[seed], seed))[:10]
        return {
            "first_seed": self.plan.seeds[0] if self.plan.seeds else 0,
            "count": len(self.plan.seeds),
            "checked": len(self.done),
            "failed_seeds": sorted(self.findings),
            "failures": [asdict(self.findings[seed]) for seed in sorted(self.findings)],
            "slowest": [{"seed": seed, "seconds": self.done[seed]} for seed in slowest],
        }
