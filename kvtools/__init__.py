"""kvtools: what vLLM's prefix cache reuses of a request log, and what stops it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvtools.heat.model import HeatModel
    from kvtools.normalize.normalizer import Normalizer

__version__ = "0.1.0"
__all__ = ["HeatModel", "Normalizer", "__version__"]


def __getattr__(name: str) -> Any:
    # When used: the command line imports this package too, and must start at once.
    if name == "Normalizer":
        from kvtools.normalize.normalizer import Normalizer  # noqa: PLC0415 - see above

        return Normalizer
    if name == "HeatModel":
        from kvtools.heat.model import HeatModel  # noqa: PLC0415 - see above

        return HeatModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
