"""Tables: benchmarks, findings, collectives, variables, stacks."""
