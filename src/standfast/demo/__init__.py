"""A scripted support agent, run raw and through Standfast: what does a stable prefix save?"""

from standfast.demo.figures import DemoResult
from standfast.demo.report import demo

__all__ = ["DemoResult", "demo"]
