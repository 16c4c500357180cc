"""The nouns beside the domains: `orchard traj`, `orchard runs`, `orchard model`."""
