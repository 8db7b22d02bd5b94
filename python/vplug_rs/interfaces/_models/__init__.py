"""The parts of `vplug_rs.interfaces.model_registry`."""
