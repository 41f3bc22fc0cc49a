"""Modelled time of programs, without running them."""

from hlo2tx8.device.timing.model import model
from hlo2tx8.device.timing.report import EngineCounters, RecordCost, Report

__all__ = ["EngineCounters", "RecordCost", "Report", "model"]
