"""Real processes, real kills: what the chain promises, proved from what devices were told and what replicas hold."""
