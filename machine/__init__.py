"""What a compiled kernel costs, read from its machine code: nothing is run, and no GPU is needed.

``sass`` reads NVIDIA's disassembly with its control codes, ``cdna`` AMD's assembly; ``flow`` finds the loops and walks the path that a
warp takes; ``units`` knows which unit runs an instruction and for how long (``pipes`` for NVIDIA; ``processors/*.toml``, a file for each
architecture); ``accesses`` puts in what layouts say of bank conflicts and sectors; ``floors`` adds up what each unit must do at least;
``simulator`` issues the instructions of one multiprocessor in order (NVIDIA only), and ``estimate`` makes a time of them.

The cost model of plans (``extract/cost.py``) is asked thousands of times a second and knows tile programs; this one takes a second for a
kernel and knows what the compiler made.
"""

from .accesses import Accesses
from .cdna import parse as assembled
from .estimate import Estimate, Work, estimate
from .sass import Instruction, Listing, disassemble

__all__ = ["Accesses", "Estimate", "Instruction", "Listing", "Work", "assembled", "disassemble", "estimate"]
