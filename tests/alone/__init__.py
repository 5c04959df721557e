"""Each distribution by itself, in an environment that has what it declares and nothing else."""
