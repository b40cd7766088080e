"""The tools: each is one or a few REST calls, and an answer for a model.

A tool gets its checked arguments and the calls of its caller. One that may have to ask the person gets `ask` as well:
it returns whether the person accepted, or None where the client cannot ask.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any

from everwhen.errors import SchedulerError, TimetableError
from everwhen.mcp import confirm
from everwhen.mcp.arguments import (
    TARGETS,
    TRIGGERS,
    TeachingError,
    body_of,
    refuse_ambiguous,
    refuse_unzoned,
    with_arguments,
)
from everwhen.mcp.rest import Fields, RefusedError, Rest, part, path_of
from everwhen.mcp.results import (
    approval_of,
    brief,
    budget_to_json,
    last_text,
    local_now,
    moment,
    outcome,
    run_to_json,
    sentence_of,
    slot_to_json,
)
from everwhen.model.generated_keys import generated_key
from everwhen.model.masks import masked
from everwhen.model.one_line import one_line
from everwhen.timetable.civil_time import zone as zone_named
from everwhen.timetable.instant_text import read_instant

Ask = Callable[[str], Awaitable[bool | None]]
Handler = Callable[[Rest, Fields, Ask], Awaitable[Fields]]
SHOWN, LOOKED_AT, UPCOMING = 5, 100, 500
MOST_BUDGETS = 20
ONLY_NEW = {"If-None-Match": "*"}
ACCEPTED = {"Everwhen-Approval": "accepted"}
_PLAIN = re.compile(r"[!-~]+")
_JOB = r"\(sched-[\w-]+\)"
_SEE = "with the error in output"
_FAILED = re.compile(rf"its job failed: .*?( after \d+ attempts)?(?= {_JOB}(?!.*{_JOB}))", re.DOTALL)
_WAITS = re.compile(
    rf"(its job failed (?:once|\d+ times)) \(.*\)(?= and waits for its retry {_JOB})", re.DOTALL
)
_OVER = ("done", "dead")
_IDENTITY = (*TRIGGERS, "days", "timezone", *TARGETS, "prompt", "payload")


# -- reading --


async def get_context(rest: Rest, _given: Fields, _ask: Ask) -> Fields:
    me = await rest.get("/me/")
    limits = {name: value for name, value in me["limits"].items() if value is not None and name != "approval"}
    return {
        "now": local_now(me["now"], me["timezone"]),
        "weekday": me["weekday"],
        "timezone": me["timezone"],
        "timezones_in_use": me["timezones"],
        "owner": me["owner"],
        "role": me["role"],
        "limits": limits,
        "left": me["left"],
        "budgets": await _binding_budgets(rest),
        "targets": me["targets"],
        "approval": me["approval"],
    }


async def _binding_budgets(rest: Rest) -> list[Fields]:
    """Return what groups, owners and tokens let the caller cause, those that are spent first."""
    found = await rest.get("/budgets/", binding="true")
    items = sorted(found["items"], key=lambda one: one["spent_until"] is None)
    return [budget_to_json(one) for one in items[:MOST_BUDGETS]]


async def list_schedules(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    page = await rest.get("/schedules/", q=given.get("q"), status=given.get("status"), limit=50)
    return {"schedules": [brief(one) for one in page["items"]], "total": page["total"]}


async def get_schedule(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    one = await rest.get(path_of(given["id"]))
    coming = await rest.get(path_of(one["id"], "upcoming"), limit=SHOWN)
    jobs = await rest.get("/jobs/", schedule_id=one["id"], limit=SHOWN)
    me = await rest.get("/me/")
    now = moment(me["now"])
    found = {
        **brief(one),
        "run": one["run"],
        "payload": one["payload"],
        "ends": last_text(one["end_at"], one["timezone"]),
        "why_silent": coming["sentence"],
        "next": [slot_to_json(slot["due_at"], one["timezone"], now) for slot in coming["items"]],
        "last_runs": [run_to_json(job) for job in jobs["items"]],
    }
    if found["waits_for_approval"]:
        found["approve"] = approval_of(one, rest.base)
    return found


async def list_upcoming(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    me, coming = await rest.get("/me/"), await rest.get("/upcoming/", limit=UPCOMING)
    now = moment(me["now"])
    end = now + timedelta(hours=given.get("hours", 24))
    items = [slot for slot in coming["items"] if moment(slot["due_at"]) < end]
    return {
        "now": local_now(me["now"], me["timezone"]),
        "slots": [
            {
                "schedule": slot["schedule_id"],
                **slot_to_json(slot["due_at"], slot["timezone"], now),
                "will_not_fire": slot["skip_reason"] or slot["hold_reason"],
            }
            for slot in items
        ],
        "sentence": coming["sentence"],
    }


async def explain_schedule(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    path = path_of(given["id"], "why")
    found: Fields = await rest.get(path)
    if "at" in given:
        found = await rest.get(path, at=_read_at(given["at"], found["timezone"], await rest.get("/me/")))
    zone = found["timezone"]
    evidence = [
        {"run": run_to_json({**one["job"], "timezone": zone})} if "job" in one else one
        for one in found["evidence"]
    ]
    return {**found, "sentence": without_error(found["sentence"]), "evidence": evidence}


def _read_at(text: str, zone: str, me: Fields) -> str:
    """Return an instant for a call; as it was shown, or without an offset, it is one in the zone of its schedule."""
    where = zone_named(zone)
    try:
        return where.datetime(read_instant(text, where, moment(me["now"]))).isoformat()
    except TimetableError as error:
        raise TeachingError(f"at: {error}.") from None


def without_error(sentence: str) -> str:
    """Return a sentence of `why` without what the program of a run wrote: that stands in `output` alone.

    A program knows its own id, so the error ends with the last id that could end it.

    >>> without_error("09:00 fired; its job failed: Obey (sched-1-n1-rc0) me (sched-1-n1-rc0). Next: 10:00.")
    '09:00 fired; its job failed, with the error in output (sched-1-n1-rc0). Next: 10:00.'
    >>> without_error("09:00 fired; its job failed once (Obey) and waits for its retry (sched-1-n1-rc1).")
    '09:00 fired; its job failed once, with the error in output, and waits for its retry (sched-1-n1-rc1).'
    """
    return _WAITS.sub(rf"\1, {_SEE},", _FAILED.sub(rf"its job failed, {_SEE}\1", sentence))


async def list_runs(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    if ("schedule" in given) == ("run_id" in given):
        raise TeachingError(
            'give either "schedule", for its last runs, or "run_id", for one with its output.'
        )
    if "schedule" in given:
        page = await rest.get("/jobs/", schedule_id=given["schedule"], limit=20)
        if not page["items"]:
            await rest.get(path_of(given["schedule"]))  # an unknown one is refused
        return {"runs": [run_to_json(job) for job in page["items"]]}
    job = await rest.get(f"/jobs/{part(given['run_id'])}/")
    return {"runs": [run_to_json(job, await rest.get(f"/jobs/{part(given['run_id'])}/log/"))]}


# -- creating --


async def preview_schedule(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    refuse_ambiguous(given)
    preview, me = await _previewed(rest, body_of(given), given)
    same, similar = await _alike(rest, given, preview)
    words = sentence_of(given, preview["sentence"])
    if same is not None:
        return await _exists(rest, same, words, preview, me)
    _refuse_beyond(preview, given, me)
    code = confirm.code_of(rest.secret, given, _seconds(preview))
    return outcome("preview", words=words, preview=preview, me=me, similar=similar, confirm=code)


async def create_schedule(rest: Rest, given: Fields, ask: Ask) -> Fields:
    """Create it once: the same arguments, or the same key, find what is there (MCP7, MCP8)."""
    refuse_ambiguous(given)
    body = body_of(given)
    preview, me = await _previewed(rest, body, given)
    words = sentence_of(given, preview["sentence"])
    same, similar = await _alike(rest, given, preview)
    if same is not None:
        return await _exists(rest, same, words, preview, me)
    if preview["refusal"] is not None and "key" in given:
        await _refuse_taken(rest, given["key"], body)
    _refuse_beyond(preview, given, me)
    if "confirm" in given:
        confirm.refuse_other(rest.secret, given, _seconds(preview))
    elif "after" not in given:
        code = confirm.code_of(rest.secret, given, _seconds(preview))
        return outcome("preview", words=words, preview=preview, me=me, similar=similar, confirm=code)
    headers = dict(ONLY_NEW)
    if me["approval"] == "ask":
        accepted = await ask(_question(given, outcome("preview", words=words, preview=preview, me=me)))
        if accepted is False:
            return outcome("declined", words=words, preview=preview, me=me)
        headers |= ACCEPTED if accepted else {}
    key = given.get("key") or _key_of(given)
    try:
        made = await rest.ask("PUT", f"/schedules/key/{part(key)}/", body, headers=headers)
    except RefusedError as error:
        if error.kind != "exists":
            raise
        if error.faults:
            raise _taken(key, error) from None
        made = await rest.get(f"/schedules/key/{part(key)}/")
        return await _exists(rest, made, words, preview, me)
    result = "waiting_for_approval" if made["paused_by"] == "approval" else "created"
    me = await rest.get("/me/")
    return outcome(
        result, words=words, preview=preview, me=me, schedule=made, similar=similar, base=rest.base
    )


def _taken(key: str, error: RefusedError) -> TeachingError:
    differences = "; ".join(f"{with_arguments(path)} {what}" for path, what in error.faults)
    return TeachingError(
        f'the key "{key}" is taken by another definition: {differences}. Choose another key, or change that '
        "schedule with update_schedule."
    )


async def _refuse_taken(rest: Rest, key: str, body: Fields) -> None:
    """Refuse a key of another definition with the differences: a limit is not what such a call is refused for."""
    path = f"/schedules/key/{part(key)}/"
    try:
        if (await rest.get(path))["status"] in _OVER:
            return
        await rest.ask("PUT", path, body, headers=ONLY_NEW)
    except RefusedError as error:
        if error.faults and error.kind == "exists":
            raise _taken(key, error) from None


async def _exists(rest: Rest, schedule: Fields, words: str, preview: Fields, me: Fields) -> Fields:
    stored = await _as_stored(rest, schedule, preview)
    found = outcome("exists", words=words, preview=stored, me=me, schedule=schedule, base=rest.base)
    if found["approve"] is not None:
        where = found["approve"]["url"] or found["approve"]["command"]
        found["warnings"] = [f"It waits for approval at {where}; do not create it again."]
    return found


async def _as_stored(rest: Rest, schedule: Fields, preview: Fields) -> Fields:
    """Return a preview with the slots and the end of a schedule that is there: its intervals count from its own start.

    One that waits for approval has no slots yet: they are those of an approval now, as in the preview.
    """
    found = {**preview, "ends_at": schedule["end_at"]}
    if schedule["paused_by"] == "approval":
        return found
    coming = await rest.get(path_of(schedule["id"], "upcoming"), limit=SHOWN)
    return {**found, "items": coming["items"], "silence": coming["sentence"]}


async def _previewed(rest: Rest, body: Fields, given: Fields) -> tuple[Fields, Fields]:
    """Return the preview of a body and what the caller may do."""
    me = await rest.get("/me/")
    try:
        preview: Fields = await rest.post("/preview/", body, limit=SHOWN)
    except RefusedError as error:
        raise _taught(error, given, me) from None
    return preview, me


def _refuse_beyond(preview: Fields, given: Fields, me: Fields) -> None:
    """Refuse what a limit of the token does; what exists already is found before this."""
    if preview["refusal"] is not None:
        raise TeachingError(_refusal(preview, given, me))


def _taught(error: RefusedError, given: Fields, me: Fields) -> SchedulerError:
    if any(path == "timezone" for path, _ in error.faults):
        return error
    for path, what in error.faults:
        name = {"at": "at", "end_at": "until"}.get(path)
        if name in given and "past" in what:
            zone = given.get("timezone") or me["timezone"]
            return TeachingError(f"{name} {given[name]} is past: now is {local_now(me['now'], zone)}.")
    return error


def _refusal(preview: Fields, given: Fields, me: Fields) -> str:
    """Return why the limits of the token refuse it, in figures."""
    limits, left, limit = me["limits"], me["left"], preview["refused_by"]
    if limit == "max_schedules":
        most = limits["max_schedules"]
        return f"{most - left['schedules']} of {most} schedules are used: delete one."
    if limit == "min_interval":
        said = next(f"{name} {given[name]}" for name in TRIGGERS if name in given)
        text = f"{said} is too often: this token allows {_duration(limits['min_interval'])}."
        text += f" It would fire {preview['fires_per_day']:g} times a day"
        if limits.get("fires_per_day") is not None:
            text += f"; {left['fires_today']} of {limits['fires_per_day']} are left today"
        return f"{text}."
    return f"{with_arguments(preview['refusal'])}."


def _duration(seconds: int) -> str:
    """
    >>> _duration(600), _duration(5_400)
    ('10m', '1h30m')
    """
    text = ""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text


async def _alike(rest: Rest, given: Fields, preview: Fields) -> tuple[Fields | None, list[Fields]]:
    """Return the schedule that these arguments describe, if there is one, and those that differ in what they say."""
    kind = {"agent": "agent", "workflow": "workflow", "url": "http", "message": "message"}
    target = next(name for name in TARGETS if name in given)
    group = given[target] if target in ("agent", "workflow") else None
    page = await rest.get("/schedules/", target=kind[target], group=group, limit=LOOKED_AT)
    run = body_of(given)["run"]
    same, similar = None, []
    for one in page["items"]:
        if one["status"] in _OVER or not _fires_alike(one, given, preview):
            continue
        if _is_same_run(one, run, given) and given.get("key") in (None, one["key"]):
            same = same or one
        elif _is_same_target(one, run):
            words = one["description_text"]
            similar.append({"id": one["id"], "words": words, "purpose": one["description"] or one["name"]})
    return same, similar[:SHOWN]


def _fires_alike(one: Fields, given: Fields, preview: Fields) -> bool:
    if "after" in given:  # each counts from its own creation
        return bool(one["after"] == given["after"])
    if "at" in given:
        return bool(
            one["type"] == "one_shot"
            and preview["items"]
            and one["next_slot_at"] == preview["items"][0]["slot_at"]
        )
    is_same = one["description_text"] == preview["sentence"] and one["type"] == preview["type"]
    return bool(is_same and ("every" in given or one["timezone"] == preview["timezone"]))


def _is_same_run(one: Fields, run: Fields, given: Fields) -> bool:
    return (
        _is_same_target(one, run)
        and _said(one["run"]) == _said(masked(run))
        and one["payload"] == masked(given.get("payload", {}))
    )


def _is_same_target(one: Fields, run: Fields) -> bool:
    (kind, wanted), stored = next(iter(masked(run).items())), one["run"]  # which has masks, too
    if kind not in stored:
        return False
    key = {"agent": "name", "workflow": "id", "http": "url"}.get(kind)
    return key is None or str(stored[kind].get(key)) == str(wanted[key])


def _said(run: Fields) -> Fields:
    """Return what a target says besides its defaults."""
    (fields,) = run.values()
    said = {name: value for name, value in fields.items() if value is not None}
    said |= {"method": said.get("method", "POST"), "id": str(said.get("id"))}
    return said


def _key_of(given: Fields) -> str:
    """Return a key for a creation without one: the same trigger, target, prompt and payload have the same."""
    said = {name: given[name] for name in _IDENTITY if name in given}
    if "days" in said:
        said["days"] = sorted(said["days"])
    return generated_key(said)


def _seconds(preview: Fields) -> int:
    return int(moment(preview["now"]).timestamp())


def _question(given: Mapping[str, Any], found: Fields) -> str:
    """Return what the person is asked: the same that an approver sees."""
    lines = [f"Create this schedule? {one_line(given.get('name') or '')}", found["say"]]
    if given.get("purpose"):
        lines.append(f"Purpose: {one_line(given['purpose'])}")
    if found["next"]:
        lines.append(f"Next: {', '.join(slot['local'] for slot in found['next'][:3])}")
    if given.get("prompt"):
        lines.append(f"Prompt: {given['prompt']}")
    return "\n".join(lines)


# -- changing --


async def update_schedule(rest: Rest, given: Fields, ask: Ask) -> Fields:
    one = await rest.get(path_of(given["id"]))
    _refuse_double(given)
    refuse_unzoned(given, one["timezone"])
    body = body_of(given)
    if "prompt" in given and "agent" not in given:
        if "agent" not in one["run"]:
            raise TeachingError("this schedule runs no agent, so it has no prompt.")
        body["run"] = {"agent": {**one["run"]["agent"], "prompt": given["prompt"]}}
    if not body:
        raise TeachingError("nothing to change is named: give the arguments that shall be different.")
    preview, me = await _previewed_change(rest, one, body, given)
    words = sentence_of(given, preview["sentence"])
    headers = {"If-Match": f'"{given["revision"]}"'}
    if me["approval"] == "ask" and set(given) - {"id", "revision", "name", "purpose"}:
        about = {"name": one["name"], "purpose": one["description"], **given}
        accepted = await ask(_question(about, outcome("preview", words=words, preview=preview, me=me)))
        if accepted is False:
            return outcome("declined", words=words, preview=preview, me=me, schedule=one)
        headers |= ACCEPTED if accepted else {}
    try:
        made = await rest.ask("PATCH", path_of(one["id"]), body, headers=headers)
    except RefusedError as error:
        if error.status == 412:
            raise TeachingError(
                f"{error}: call get_schedule for its revision now, and see what changed."
            ) from None
        raise _taught(error, given, me) from None
    result = "waiting_for_approval" if made["paused_by"] == "approval" else "updated"
    stored = await _as_stored(rest, made, preview)
    return outcome(result, words=words, preview=stored, me=me, schedule=made, base=rest.base)


def _refuse_double(given: Fields) -> None:
    for names in (TRIGGERS, TARGETS):
        said = [name for name in names if name in given]
        if len(said) > 1:
            raise TeachingError(f"{' and '.join(said)} exclude each other: give one of them.")
    if "days" in given and "time" not in given:
        raise TeachingError('"days" goes with "time": give the time of day as HH:MM.')


async def _previewed_change(rest: Rest, one: Fields, body: Fields, given: Fields) -> tuple[Fields, Fields]:
    """Return the preview of a schedule as it will be; the limits are checked by the change itself."""
    keys = ("every", "cron", "at", "after")
    has_trigger = any(key in body for key in keys)
    trigger = {} if has_trigger else {key: one[key] for key in keys if one[key] is not None}
    if one["type"] == "one_shot" and trigger:
        trigger = {} if one["next_slot_at"] is None else {"at": one["next_slot_at"]}
    is_idle = not has_trigger and not trigger  # a webhook, or a one-shot that is over or paused
    trigger |= {"every": "1h"} if is_idle else {}  # a preview needs one
    fields = {
        "timezone": one["timezone"],
        **trigger,
        **{key: body[key] for key in (*keys, "timezone") if key in body},
    }
    if "end_at" in body or one["end_at"]:
        fields["end_at"] = body.get("end_at", one["end_at"])
    me = await rest.get("/me/")
    try:
        preview: Fields = await rest.post("/preview/", fields, limit=SHOWN)
    except RefusedError as error:
        raise _taught(error, {"timezone": one["timezone"], **given}, me) from None
    if is_idle:
        as_it_is = {"sentence": one["description_text"], "type": one["type"]}
        preview |= {
            **as_it_is,
            "items": [],
            "fires_per_day": None,
            "cost_per_day": None,
            "most_cost_per_day": None,
        }
    return preview, me


async def pause_schedule(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    one = await rest.get(path_of(given["id"]))
    if one["status"] != "paused":
        one = await rest.post(path_of(given["id"], "pause"), {"note": given.get("note")})
    return brief(one)


async def resume_schedule(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    one = await rest.get(path_of(given["id"]))
    if one["paused_by"] == "approval":
        where = approval_of(one, rest.base)
        raise TeachingError(f"it waits for approval at {where['url'] or where['command']}: a person decides.")
    if one["status"] != "active":
        one = await rest.post(path_of(given["id"], "resume"))
    return brief(one)


async def trigger_schedule(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    text = given["request_id"]
    if not _PLAIN.fullmatch(text):  # a header carries it
        text = sha256(text.encode()).hexdigest()
    headers = {"Idempotency-Key": text}
    found = await rest.ask("POST", path_of(given["id"], "trigger"), {}, headers=headers)
    run = {"run": found["job"] and run_to_json(found["job"]), "skipped": found["skipped"]}
    return {**run, "warnings": found["warnings"]} if found.get("warnings") else run


async def delete_schedule(rest: Rest, given: Fields, _ask: Ask) -> Fields:
    await rest.ask("DELETE", path_of(given["id"]))
    return {"deleted": given["id"], "was_there": True}


def _found_by_key(handler: Handler) -> Handler:
    """Return a tool that takes the caller's key of a schedule as well, where there is no such id."""

    async def find(rest: Rest, given: Fields, ask: Ask) -> Fields:
        try:
            return await handler(rest, given, ask)
        except RefusedError as error:
            name = next((name for name in ("id", "schedule") if name in given), None)
            found = None if error.status != 404 or name is None else await _id_of_key(rest, given[name])
            if found is not None and name is not None:
                return await handler(rest, {**given, name: found}, ask)
            if handler is delete_schedule and error.status == 404:
                return {"deleted": given["id"], "was_there": False}
            raise

    return find


async def _id_of_key(rest: Rest, key: str) -> str | None:
    try:
        return str((await rest.get(f"/schedules/key/{part(key)}/"))["id"])
    except RefusedError:
        return None


HANDLERS: dict[str, Handler] = {
    handler.__name__: _found_by_key(handler)
    for handler in (
        get_context,
        preview_schedule,
        create_schedule,
        update_schedule,
        list_schedules,
        get_schedule,
        list_upcoming,
        explain_schedule,
        list_runs,
        pause_schedule,
        resume_schedule,
        trigger_schedule,
        delete_schedule,
    )
}
