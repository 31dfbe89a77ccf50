"""Plans on disk: what was searched for once is read by the next process.

An entry holds choices as data (:mod:`.codec`), each in a file of its own that only its owner may write (:mod:`.folder`).  What is read is
lowered, checked and priced again by the code that the search uses (:mod:`.plans`): no tile program, text or cost comes from a file, and
nothing that it says is imported or executed.
"""

from .folder import clear, directory
from .plans import Key, key, known_best, note_best, read_plan, write_plan

__all__ = ["Key", "clear", "directory", "key", "known_best", "note_best", "read_plan", "write_plan"]
