"""orchard: from a teacher's trajectories to a trained, honestly measured agent."""

__version__ = "0.1.0"
