"""Which cells are formed on their own, and when a GPU is shared."""

import pytest

from jupyter_dist.frameworks.jax.framework import imports_jax, shares_gpu


@pytest.mark.parametrize(
    "code",
    [
        "import jax",
        "import jax.numpy as jnp",
        "import numpy, jax",
        "from jax import numpy",
        "from jax.sharding import Mesh",
        "def f():\n    import jax",
        "%timeit 1\nimport jax",
        "!ls\nfrom jax import numpy as jnp",
    ],
)
def test_a_cell_that_imports_jax_is_formed(code):
    assert imports_jax(code)


@pytest.mark.parametrize(
    "code",
    [
        "jax.device_count()",
        "import jaxtyping",
        "from .jax import x",
        "print('import jax')",
        "# import jax",
        "import jax\njax.distributed.initialize()",
        "from jax.distributed import initialize",
        "import jax\nif rank == 0:\n    jax.distributed.initialize(process_id=0)",
        "%timeit 1\nimport jax\njax.distributed.initialize()",
        "!ls\nimport jaxtyping",
    ],
)
def test_a_cell_that_does_not_or_that_forms_it_in_its_own_words_is_left_alone(code):
    assert not imports_jax(code)


GPU = {"jax": None, "torch": None, "jax_plugins.xla_cuda12": None}


@pytest.mark.parametrize(
    ("modules", "environ", "is_shared"),
    [
        (GPU, {}, True),
        (GPU, {"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, True),
        (GPU, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}, False),
        (GPU, {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".3"}, False),
        ({"jax": None, "torch": None}, {}, False),
        ({"jax": None, "jax_plugins.xla_cuda12": None}, {}, False),
    ],
)
def test_a_gpu_is_shared_when_both_are_loaded_and_jax_may_take_it_all(modules, environ, is_shared):
    assert shares_gpu(modules, environ) is is_shared
