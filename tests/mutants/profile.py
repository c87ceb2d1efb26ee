"""Plugin of pytest that gives Hypothesis the settings in which mutants are played."""

from __future__ import annotations

from hypothesis import Phase, settings

PROFILE = "mutants"
# The same examples in every run, so that no mutant is killed by luck. None from before, and none made smaller.
settings.register_profile(
    PROFILE, deadline=None, database=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
