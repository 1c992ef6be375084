"""How examples of hypothesis are tried: a busy machine is no reason to fail."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")
