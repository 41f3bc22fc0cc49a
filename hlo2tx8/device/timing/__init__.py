"""Modelled time of programs, without running them."""

from hlo2tx8.device.timing.model import deciding_records, model, report_of
from hlo2tx8.device.timing.report import EngineCounters, Part, RecordCost, Report

__all__ = ["EngineCounters", "Part", "RecordCost", "Report", "deciding_records", "model", "report_of"]
