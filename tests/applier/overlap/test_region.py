"""One rank: what a region gives, and what it holds on to."""

import gc
import weakref
from typing import Any

import pytest

from energyopt.applier.overlap.collectives import REDUCE_COPY
from energyopt.applier.overlap.communicators import Communicators
from energyopt.applier.runtime.off import OffSession

torch = pytest.importorskip("torch", reason="needs torch: pip install energyopt[torch]")


def region(value: Any, *inputs: Any, then: Any = None) -> Any:
    with OffSession().overlap("mlp", REDUCE_COPY, Communicators(), value, *inputs, then=then) as found:
        pass
    return found.join()


def test_alone_nothing_is_communicated() -> None:
    value = torch.tensor([1.0, 2.0], requires_grad=True)
    result = region(value)
    assert result.tolist() == [1.0, 2.0]
    (result * 3.0).sum().backward()
    assert value.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("learns", [(True, True), (True, False), (False, True), (False, False)])
def test_what_stands_between(learns: tuple[bool, bool]) -> None:
    """As the same in plain torch, whichever of its inputs need a gradient; its weights get theirs."""

    def grads(run: Any) -> list[Any]:
        value, other = (torch.tensor([0.3, place], requires_grad=one) for place, one in enumerate(learns))
        weight = torch.tensor([2.0, 0.5], requires_grad=True)

        def then(value: Any, other: Any) -> Any:
            total = value + other
            return torch.tanh(total * weight), total

        first, second = run(then, value, other)
        (first * first + second).sum().backward()
        return [first.tolist(), second.tolist(), *(one.grad for one in (value, other, weight))]

    plain, found = (
        grads(lambda then, *given: then(*given)),
        grads(lambda then, *given: region(*given, then=then)),
    )
    assert found[:2] == plain[:2]
    for one, other in zip(found[2:], plain[2:], strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)


def test_what_is_joined_may_be_changed_in_place() -> None:
    value = torch.ones(2, requires_grad=True)
    result = region(value * 2.0)
    result += 1.0
    assert result.tolist() == [3.0, 3.0]


def test_a_tensor_that_was_changed_is_noticed_as_torch_does() -> None:
    """`exp` needs its result on the way back."""
    value = torch.ones(2, requires_grad=True)
    result = region(value, then=lambda value: value.exp())
    result *= 2.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_what_stands_between_holds_no_tensor_that_checkpointing_leaves_out() -> None:
    alive: list[Any] = []

    def then(value: Any) -> Any:
        middle = value.exp()
        alive.append(weakref.ref(middle))
        return middle * 3.0

    value = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda _tensor: None, lambda _none: torch.ones(2).exp()):
        result = region(value, then=then)
    gc.collect()
    assert alive[0]() is None
    result.sum().backward()
    assert torch.equal(value.grad, torch.ones(2).exp() * 3.0)


def test_a_graph_that_nobody_runs_is_let_go() -> None:
    class Weight(torch.Tensor):
        """One that can be watched."""

    weight = Weight([1.0, 2.0])
    gone = weakref.ref(weight)
    result = region(torch.ones(2, requires_grad=True), then=weight.__mul__)
    del weight, result
    gc.collect()
    assert gone() is None


def weighted() -> tuple[Any, Any, Any]:
    """A region whose `then` doubles through a weight: y = x w, dy/dx = w = 2, dy/dw = x = 1."""
    value, weight = torch.ones(2, requires_grad=True), torch.full((2,), 2.0, requires_grad=True)
    return value, weight, region(value * 1.0, then=lambda value: value * weight).sum()


def test_only_what_is_asked_for_gets_a_gradient() -> None:
    value, weight, loss = weighted()
    assert torch.autograd.grad(loss, value, retain_graph=True)[0].tolist() == [2.0, 2.0]
    assert torch.autograd.grad(loss, [weight], retain_graph=True)[0].tolist() == [1.0, 1.0]
    loss.backward(inputs=[value], retain_graph=True)
    assert weight.grad is None
    loss.backward()
    assert weight.grad.tolist() == [1.0, 1.0]
    assert value.grad.tolist() == [4.0, 4.0]


def test_hooks_of_a_weight_are_called_once() -> None:
    _, weight, loss = weighted()
    weight.register_hook(lambda gradient: gradient * 10.0)
    loss.backward()
    assert weight.grad.tolist() == [10.0, 10.0]


def test_a_computed_tensor_is_to_be_an_input() -> None:
    computed = torch.ones(2, requires_grad=True) * 3.0
    with pytest.raises(ValueError, match="give it to overlap"):
        region(torch.ones(2), then=lambda value: value * computed)


def test_a_cast_that_autocast_has_kept() -> None:
    """Two uses of one weight, the second inside: x w + x w, so w's gradient is 2 x."""
    value, weight = torch.ones(1, 2), torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outside = value @ weight
        inside = region(value, then=lambda value: value @ weight)
    assert inside.dtype == torch.bfloat16
    (outside + inside).float().sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_nothing_that_needs_a_gradient() -> None:
    assert not region(torch.ones(2), then=lambda value: value * 2.0).requires_grad
