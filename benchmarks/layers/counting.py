"""Sequential operations and path lengths, counted in graphs that autograd recorded and in the Jacobian of a layer.

Shapes: n positions, d = d_model.
"""

from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch import nn

from benchmarks.layers.kinds import HEAD_DIM, Kind, Recurrent

_ROWS = 32
"""How many outputs are followed back at a time."""


def sequential_operations(kind: Kind, length: int) -> int:
    """The longest chain of operations from the input to the output of one layer, where each needs the one before it.

    It is the depth of autograd's graph, in float64: for narrower types oneDNN hides a whole recurrence in one operation.
    """
    states = torch.zeros(1, length, HEAD_DIM, dtype=torch.float64, requires_grad=True)
    return _depth(kind.build(HEAD_DIM, 1).double()(states).grad_fn)


def _depth(last: Any) -> int:
    """Nodes on the longest path of a graph without cycles, its leaves left out."""
    depths: dict[Any, int] = {}
    waiting = [last]
    while waiting:
        node = waiting[-1]
        before = [each for each, _ in node.next_functions if each is not None and each.next_functions]
        unknown = [each for each in before if each not in depths]
        if unknown:
            waiting.extend(unknown)
        else:
            depths[waiting.pop()] = 1 + max((depths[each] for each in before), default=0)
    return depths[last]


def path_length(kind: Kind, length: int) -> int:
    """The longest of the shortest ways between an input's and an output's position.

    A way is counted in applications of the layer that lie on it: layers of a stack, or steps of a recurrence.
    """
    return _steps(kind, length) if kind.is_recurrent else _layers(kind, length)


def _layers(kind: Kind, length: int) -> int:
    """The smallest stack in which every output depends on every input.

    Where a layer would look beyond the sequence only, its dilations begin anew.
    """
    own = [reach(kind.build(HEAD_DIM, 0), length)]
    if bool(own[0].all()):
        return 1
    while True:
        following = reach(kind.build(HEAD_DIM, len(own)), length)
        if bool((following == own[0]).all()):
            return _power(own[0])
        if following.sum() == length:  # itself only
            break
        own.append(following)
    reached = torch.eye(length, dtype=torch.bool)
    for layers in count(1):
        reached = (own[(layers - 1) % len(own)].float() @ reached.float()) > 0
        if bool(reached.all()):
            return layers
    raise AssertionError("unreachable")


def _power(reached: torch.Tensor) -> int:
    """The least power of a boolean matrix, its diagonal True, that has no zero: doubled, then searched between the last two powers."""
    powers = [reached]
    while not bool(powers[-1].all()):
        powers.append((powers[-1].float() @ powers[-1].float()) > 0)
    least, product = 2 ** (len(powers) - 2), powers[-2]
    for exponent in reversed(range(len(powers) - 2)):
        further = (product.float() @ powers[exponent].float()) > 0
        if not bool(further.all()):
            least, product = least + 2**exponent, further
    return least + 1


def reach(layer: nn.Module, length: int) -> torch.Tensor:
    """Where the Jacobian of a layer is not zero, `[n, n]`: whether the output at a row depends on the input at a column."""
    layer = layer.double()
    torch.manual_seed(1)
    states = torch.randn(1, length, HEAD_DIM, dtype=torch.float64)
    weights = torch.randn(HEAD_DIM, dtype=torch.float64)
    rows = []
    for outputs in torch.arange(length).split(_ROWS):
        copies = states.repeat(len(outputs), 1, 1).requires_grad_()
        (layer(copies)[torch.arange(len(outputs)), outputs] @ weights).sum().backward()
        assert copies.grad is not None
        rows.append((copies.grad != 0).any(-1))
    return torch.cat(rows)


def _steps(kind: Kind, length: int) -> int:
    """Steps on the shortest way, in autograd's graph, from the last position's output to the first position's input.

    The layer takes one position at a time here, with the state it left, which is the same function; so each has nodes of its own.
    """
    layer = kind.build(HEAD_DIM, 0)
    assert isinstance(layer, Recurrent)
    inputs = [torch.zeros(1, 1, HEAD_DIM, requires_grad=True) for _ in range(length)]
    state, steps, output = None, {}, inputs[0]
    for number, states in enumerate(inputs):
        output, state = layer.cells(states, state)
        steps.update({part.grad_fn: number for part in (state if isinstance(state, tuple) else (state,))})
    way = list(_shortest(output.grad_fn, inputs[0]))
    return len({steps[node] for node in way if node in steps} | {length - 1})


def _shortest(last: Any, leaf: torch.Tensor) -> Iterator[Any]:
    """The nodes on a shortest way from `last` to the node that gathers the gradient of `leaf`."""
    origin: dict[Any, Any] = {last: None}
    waiting = deque([last])
    while waiting:
        node = waiting.popleft()
        if getattr(node, "variable", None) is leaf:
            while node is not None:
                yield node
                node = origin[node]
            return
        for each, _ in node.next_functions:
            if each is not None and each not in origin:
                origin[each] = node
                waiting.append(each)
