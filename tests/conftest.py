"""Settings that hold for every test."""

from hypothesis import HealthCheck, settings

# No test fails because the machine was busy.
settings.register_profile("laneway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("laneway")
