"""Side effects of jobs: written with their settlement, or not at all."""

from __future__ import annotations

from everwhen.model.outcome import Outcome, PluginUpdate, drifted
from everwhen.operations.schedules import restore_schedule
from tests.conformance.tenant import Tenant, end_of


def remembering(updates: str, plugin: str = "withings") -> Outcome:
    return Outcome("succeeded", also=PluginUpdate(plugin, updates))


def test_a_plugin_that_never_stored_anything_remembers_nothing(runtime: Tenant) -> None:
    assert runtime.runtime.catalogue.plugin_state("withings") == {}


def test_updates_are_merged_key_by_key(runtime: Tenant) -> None:
    runtime.add("poll", every="1m")
    runtime.step()
    runtime.run(remembering('{"seen": [1], "deep": {"a": 1}, "gone": 5}'))
    runtime.wait_and_step("1m")
    runtime.run(remembering('{"deep": {"b": 2}, "gone": null}'))
    assert runtime.runtime.catalogue.plugin_state("withings") == {"seen": [1], "deep": {"b": 2}, "gone": None}
    assert runtime.runtime.catalogue.plugin_state("other") == {}


def test_jobs_that_end_together_all_have_their_say(runtime: Tenant) -> None:
    runtime.add_many(["a", "b", "c"], every="1m")
    runtime.step()
    one, two, three = runtime.claim()
    runtime.runtime.slots.settle(
        runtime.now,
        [
            end_of(one, remembering('{"first": 1, "both": 1}')),
            end_of(two, remembering('{"second": 2, "both": 2}')),
            end_of(three, remembering("{}", plugin="other")),
        ],
    )
    assert runtime.runtime.catalogue.plugin_state("withings") == {"first": 1, "second": 2, "both": 2}


def test_the_word_of_a_worker_that_was_given_up_for_dead_is_not_remembered(runtime: Tenant) -> None:
    runtime.add("poll", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    neighbour = runtime.neighbour()
    runtime.wait("1m")
    neighbour.beat()
    assert neighbour.rescue() == 1
    assert runtime.settle(claimed, outcome=remembering('{"seen": 1}')) == 0
    assert runtime.runtime.catalogue.plugin_state("withings") == {}


def announcing(events: str, *, succeeds: bool = True) -> Outcome:
    return Outcome("succeeded" if succeeds else "failed", error=None if succeeds else "no", events=events)


def test_events_are_kept_with_the_output_of_their_attempt(runtime: Tenant) -> None:
    runtime.add("poll", every="1h", max_retries=1, retry_delay="1s")
    runtime.step()
    (first,) = runtime.claim()
    runtime.settle(first, outcome=announcing('{"type": "half"}\n', succeeds=False))
    runtime.wait_and_step("1m")
    (second,) = runtime.claim()
    whole = '{"type": "done"}\n' * 10_000
    runtime.settle(second, outcome=announcing(whole))
    (piece,) = runtime.runtime.ledger.output(first.job.job_id)
    assert (piece.stream.stream, piece.stream.attempt, piece.data) == ("events", 1, b'{"type": "half"}\n')
    pieces = runtime.runtime.ledger.output(second.job.job_id)
    assert {piece.stream.attempt for piece in pieces} == {2}
    assert b"".join(piece.data for piece in pieces) == whole.encode()


def test_the_events_of_a_worker_that_was_given_up_for_dead_are_not_kept(runtime: Tenant) -> None:
    runtime.add("poll", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    neighbour = runtime.neighbour()
    runtime.wait("1m")
    neighbour.beat()
    assert neighbour.rescue() == 1
    assert runtime.settle(claimed, outcome=announcing("{}\n")) == 0
    assert runtime.runtime.ledger.output(claimed.job.job_id) == []


def test_a_cancelled_job_leaves_nothing_behind(runtime: Tenant) -> None:
    runtime.add("poll", every="1h")
    runtime.step()
    (claimed,) = runtime.claim()
    runtime.cancel(claimed.job.job_id)
    runtime.settle(claimed, outcome=remembering('{"seen": 1}'))
    assert runtime.job(claimed.job.job_id).status == "cancelled"
    assert runtime.runtime.catalogue.plugin_state("withings") == {}


def test_a_target_that_is_gone_ends_its_schedule_for_good(runtime: Tenant) -> None:
    runtime.add("poll", every="1m", max_retries=3)
    runtime.step()
    runtime.run(drifted("the command is gone"))
    state = runtime.state("poll")
    assert (state.status, state.status_reason, state.next_run_at) == ("invalid", "the command is gone", None)
    assert (state.error_count, state.last_error, state.outstanding) == (1, "the command is gone", 0)
    assert runtime.reasons("poll", "schedule.invalidated") == ["the command is gone"]
    assert runtime.wait_and_step("5m") == 0
    assert runtime.statuses("poll") == ["failed"]
    assert runtime.check().is_clean


def test_a_manual_job_of_a_target_that_is_gone_changes_nothing_else(runtime: Tenant) -> None:
    runtime.add("poll", every="1h")
    runtime.step()
    runtime.run()
    runtime.trigger("poll")
    runtime.run(drifted("the command is gone"))
    assert runtime.state("poll").status == "active"
    assert runtime.statuses("poll") == ["succeeded", "failed"]


def test_a_chain_that_was_found_valid_again_goes_on(runtime: Tenant) -> None:
    runtime.add("poll", every="5m", interval_from="completion")
    runtime.step()
    runtime.run(drifted("the command is gone"))
    runtime.wait_and_step("1h")
    restore_schedule(runtime.runtime, "poll")
    assert runtime.state("poll").status == "active"
    runtime.wait_and_step("5m")
    runtime.run()
    assert runtime.statuses("poll") == ["failed", "succeeded"]
    assert runtime.check().is_clean
