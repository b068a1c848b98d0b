import pytest

from spdl.pipeline import AsyncQueue, PipelineBuilder


class Own(AsyncQueue[object]):
    async def put(self, item: object) -> None:
        await super().put(item)


@pytest.mark.parametrize("build", [lambda builder: builder, lambda builder: builder.pipe(str)])
def test_queues_of_the_users_are_no_stages(build: object) -> None:
    builder = build(PipelineBuilder().add_source(range(3)))  # type: ignore[operator]
    pipeline = builder.add_sink().build(num_threads=1, queue_class=Own)
    count = len(pipeline.statistics().stages)
    assert pipeline.statistics().edges == tuple((stage, stage + 1) for stage in range(count - 1))
