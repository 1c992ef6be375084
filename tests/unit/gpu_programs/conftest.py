from tests.gpu_programs import first_contact, program  # noqa: F401  (fixtures)
