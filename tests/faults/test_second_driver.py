"""A stream that is started twice by mistake is refused the second time, and the first one goes on."""

from collections.abc import Callable

import pytest

from tests.faults.stage import Stage, some
from tests.streams import Feed
from tests.waiting import until

pytestmark = pytest.mark.soak


def test_a_second_process_on_the_same_view_is_refused_and_the_first_goes_on(
    new_stage: Callable[..., Stage],
) -> None:
    stage = new_stage(strict="true")
    view = next(view for view in stage.views if view.name == "page_traffic")
    feed = Feed(stage.spark, stage.log)
    feed.commit(some(20, 0), 0)
    first = stage.run("stream", view.name)
    first.wait_for("stream started")
    second = stage.run("stream", view.name)
    assert second.ended() == 2
    assert f"runs already (process {first.process.pid})" in second.said
    assert "Traceback" not in second.said
    feed.commit(some(20, 1), 1)
    until(lambda: stage.in_step(view))
    assert first.stop() == 0, first.said
