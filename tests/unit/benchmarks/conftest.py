from tests.gpu_programs import benchmark_module, program  # noqa: F401  (fixtures)
