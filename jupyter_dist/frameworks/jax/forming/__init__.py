"""How JAX is initialized on all ranks: compared first, so that nothing hangs or aborts."""
