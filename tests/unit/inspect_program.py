"""Runs Inspect for `test_evals_inspect.py`, with models that answer from a script; prints log and prompts as JSON.

    python inspect_program.py FOLDER SAMPLES EPOCHS [ORDER]

A process of its own, because Inspect leaves streams open that pytest takes for errors.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.scorer import CORRECT, Score, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState, generate

from openmrc.evals.order_file import ordered


class Scripted(ModelAPI):
    """Answers at once, with a usage, and records the prompts in order of arrival."""

    def __init__(self, model_name: str, *, prompt_tokens: int, output_tokens: int, **rest: Any) -> None:
        super().__init__(model_name)
        self.usage = ModelUsage(
            input_tokens=prompt_tokens - 40,
            input_tokens_cache_read=40,
            output_tokens=output_tokens,
            total_tokens=prompt_tokens + output_tokens,
        )
        self.prompts: list[str] = []

    async def generate(self, input: Any, tools: Any, tool_choice: Any, config: Any) -> ModelOutput:  # noqa: A002
        self.prompts.append(input[-1].text)
        choice = ChatCompletionChoice(message=ChatMessageAssistant(content="yes"))
        return ModelOutput(model="scripted", choices=[choice], usage=self.usage)

    async def count_text_tokens(self, text: str) -> int:
        return len(text) // 4


@modelapi("scripted")
def scripted() -> type[ModelAPI]:
    """Registers the model for Inspect."""
    return Scripted


@scorer(metrics=[accuracy(), stderr()])
def judged() -> Any:
    """One call of the model with the role of a grader for each sample."""

    async def score(state: TaskState, target: Target) -> Score:
        await get_model(role="grader").generate("right?")
        return Score(value=CORRECT)

    return score


def main() -> None:
    folder, count, epochs, *order = sys.argv[1:]
    dataset = MemoryDataset([Sample(id=f"s{n}", input=f"question {n}") for n in range(int(count))], name="asked")
    agent = get_model("scripted/agent", memoize=False, prompt_tokens=100, output_tokens=20)
    judge = get_model("scripted/judge", memoize=False, prompt_tokens=200, output_tokens=10)
    samples = ordered(dataset, order[0]) if order else dataset
    (log,) = inspect_eval(
        Task(dataset=samples, solver=generate(), scorer=judged(), name="asked"),
        model=agent,
        model_roles={"grader": judge},
        epochs=int(epochs),
        max_samples=1,
        log_dir=folder,
        display="none",
        log_format="eval",
    )
    assert isinstance(agent.api, Scripted)
    print(json.dumps({"status": log.status, "log": log.location, "prompts": agent.api.prompts}))


if __name__ == "__main__":
    main()
