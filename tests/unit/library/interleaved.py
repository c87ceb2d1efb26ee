"""Protocol steps on one object store in every order of their requests, each state of them visited once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from effectively_once.errors import PipelineError
from effectively_once.ledger.objects import Answer, Request, Step
from tests.unit.ledger.memory_store import MemoryStore

Actor = Callable[[], Step[Any]]
Objects = tuple[tuple[str, bytes], ...]


def every_order(objects: Mapping[str, bytes], actors: Sequence[Actor]) -> Iterator[tuple[dict[str, bytes], list[Any]]]:
    """Yield the objects that are left and what each actor returned, or the PipelineError that it ended with."""
    start: tuple[Objects, tuple[tuple[Answer, ...], ...]] = (tuple(sorted(objects.items())), ((),) * len(actors))
    seen, stack = {start}, [start]
    while stack:
        now, answers = stack.pop()
        wanted = [_next(actor, known) for actor, known in zip(actors, answers, strict=True)]
        if all(request is None for request, _ in wanted):
            yield dict(now), [result for _, result in wanted]
        for number, (request, _) in enumerate(wanted):
            if request is None:
                continue
            store = MemoryStore()
            store.objects = dict(now)
            known = (*answers[number], store.answer(request))
            then = tuple(sorted(store.objects.items())), (*answers[:number], known, *answers[number + 1 :])
            if then not in seen:
                seen.add(then)
                stack.append(then)


def _next(actor: Actor, answers: tuple[Answer, ...]) -> tuple[Request | None, Any]:
    """The request that an actor makes after some answers, or None and how it ended."""
    step = actor()
    try:
        request = next(step)
        for answer in answers:
            request = step.send(answer)
    except StopIteration as end:
        return None, end.value
    except PipelineError as error:
        return None, error
    return request, None
