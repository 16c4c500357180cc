"""What `orchard env bench` measures beyond single calls: peers, agents, forks, transfers, chaos, faults, growth."""
