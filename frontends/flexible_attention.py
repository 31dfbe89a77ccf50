"""FlexAttention by its definition: scores, a function of score and position, a mask of positions, and attention as usual.

``torch.nn.attention.flex_attention`` is one operator in graphs (a higher-order one), whose functions are graphs of scalars.  Where every
node of these broadcasts, as arithmetic does and an index by positions, they give all values at once if they are called with all scores
and positions; tiles that the mask leaves out are found in these like those of any other mask.  The blocks of the mask, lists for one
implementation, are not read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import TraceError
from .capture import weighted_values
from .places import place_of_node


def flexible_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    score_mod: torch.fx.GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Mapping[str, Any],
    of_scores: Sequence[Any] = (),
    of_mask: Sequence[Any] = (),
) -> tuple[torch.Tensor, None, None]:
    """The first result of the operator, which takes these arguments; rows of which nothing is left give 0, as there.

    q is ``[batch, heads, queries, width]``; k and v have as many heads or a divisor of them.  Raises TraceError for a function that means
    something else for all positions at once.
    """
    if q.size(-3) != k.size(-3):
        k, v = (x.repeat_interleave(q.size(-3) // k.size(-3), -3) for x in (k, v))
    scores = (q @ k.transpose(-2, -1)) * scale
    scores = scores if scores.dtype == torch.float64 else scores.float()
    places = [torch.arange(n, dtype=torch.int32, device=q.device).view(-1, *(1,) * (3 - d)) for d, n in enumerate(scores.shape)]
    scores = _AllAtOnce(score_mod, 5).run(scores, *places, *of_scores)
    scores = torch.where(_AllAtOnce(block_mask[-1], 4).run(*places, *of_mask), scores, -math.inf)
    return weighted_values(scores, v), None, None


class _AllAtOnce(torch.fx.Interpreter):
    """Runs a graph of scalars on tensors of them: the first ``count`` arguments.  What is made of these has to broadcast at every node,
    as a sum or a row of a table does not."""

    def __init__(self, module: torch.fx.GraphModule, count: int) -> None:
        super().__init__(module)
        self._many = set([n for n in module.graph.nodes if n.op == "placeholder"][:count])

    def run_node(self, n: torch.fx.Node) -> Any:
        found = super().run_node(n)
        given = [self.env[a].shape for a in n.all_input_nodes if a in self._many]
        if given and n.op != "output":
            if not isinstance(found, torch.Tensor) or found.shape != torch.broadcast_shapes(*given):
                raise TraceError(f"{n.target} is no function of scalars one by one", where=place_of_node(n), cure="index with all at once")
            self._many.add(n)
        return found


def one_result(options: Mapping[str, Any]) -> bool:
    """Whether a call wants no more than the first result."""
    return not options.get("OUTPUT_LOGSUMEXP") and not options.get("OUTPUT_MAX")
