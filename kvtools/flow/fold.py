"""The one pass over a log that ``analyze`` makes: its profile, and what findings and classes take besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtools.profile import LogProfile, map_chunk

if TYPE_CHECKING:
    from kvtools.flow.diagnose import Gathered
    from kvtools.flow.heat import HeatStage
    from kvtools.flow.intake import Intake


def fold_log(intake: Intake, gathered: Gathered, heat: HeatStage) -> LogProfile:
    """Return the profile of the log; ``gathered`` and ``heat`` take what they need of each chunk."""
    profile = LogProfile()
    for chunk, keyed, dropped in intake.chunks():
        profile.merge(map_chunk(chunk, keyed, dropped))
        gathered.add(chunk, keyed)
        heat.add(chunk, keyed)
    return profile
