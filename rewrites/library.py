"""The rules of the package, family by family, in the order in which the engine reads them."""

# isort: off
from . import analyses
from . import signs
from . import algebra
from . import reductions
from . import scans
from . import layout
from . import gathers
from . import tiling
from . import repair
from . import forms
from . import selections
from . import invariance
from . import strength
from . import fusion
from . import order
from . import cancelling
# isort: on

_MODULES = (
    analyses, signs, algebra, reductions, scans, layout, gathers, tiling, repair, forms, selections, invariance, strength, fusion, order,
    cancelling,
)  # fmt: skip
FAMILIES = tuple(family.__name__.rpartition(".")[2] for family in _MODULES)
