"""Names that are no zones: the message leads to zones that mean the same time, on every surface."""

from __future__ import annotations

import pytest

from everwhen import calculate_next_cron_trigger
from everwhen.errors import TimetableError
from everwhen.timetable.civil_time import known_zones, zone


def refusal(name: str) -> str:
    with pytest.raises(TimetableError) as caught:
        zone(name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "zones"),
    [
        ("CEST", ["Europe/Berlin", "Europe/Paris", "Europe/Madrid"]),
        ("cest", ["Europe/Berlin"]),
        ("BST", ["Europe/London"]),
        ("EDT", ["America/New_York"]),
        ("PST", ["America/Los_Angeles", "Asia/Manila"]),
        ("IST", ["Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"]),
        ("CST", ["America/Chicago", "Asia/Shanghai", "America/Havana"]),
        ("AEST", ["Australia/Sydney", "Australia/Brisbane"]),
        ("NZDT", ["Pacific/Auckland"]),
        ("MSK", ["Europe/Moscow"]),
        ("JST", ["Asia/Tokyo"]),
    ],
)
def test_an_abbreviation_leads_to_zones_that_go_by_it(name: str, zones: list[str]) -> None:
    text = refusal(name)
    assert f'Unknown time zone "{name}", an abbreviation; use the name of a zone' in text
    assert [one for one in zones if one not in text] == []


@pytest.mark.parametrize(
    "name", ["CEST", "PST", "EDT", "BST", "SGT", "JST", "MSK", "AEST", "Z", "EST5", "UTC2", "BRT", "LMT"]
)
def test_no_short_name_leads_to_another_short_name(name: str) -> None:
    short = {known for known in known_zones() if "/" not in known}
    assert 'did you mean "' not in refusal(name)
    assert not short & set(refusal(name).replace(",", " ").split())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("UTC+2", "Europe/Helsinki, Asia/Jerusalem or Europe/Berlin in summer; Etc/GMT-2 is exactly"),
        ("GMT+0200", "Etc/GMT-2 is exactly this offset"),
        ("+02:00", "Etc/GMT-2 is exactly this offset"),
        ("-05:00", "America/New_York, America/Bogota or America/Chicago in summer; Etc/GMT+5 is exactly"),
        ("UTC+5:30", "Asia/Kolkata"),
        ("UTC+0", "Europe/London"),
        ("+23:17", "an offset from UTC that no zone has"),
    ],
)
def test_an_offset_leads_to_zones_that_have_it(name: str, hint: str) -> None:
    assert hint in refusal(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("utc", "UTC"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
    ],
)
def test_a_misspelt_name_leads_to_the_right_one(name: str, meant: str) -> None:
    assert refusal(name).endswith(f'did you mean "{meant}"?')


def test_the_functions_for_time_refuse_it_too() -> None:
    with pytest.raises(
        TimetableError, match="an abbreviation; use the name of a zone, such as Europe/Berlin"
    ):
        calculate_next_cron_trigger("0 9 * * *", timezone="CEST")


@pytest.mark.parametrize("name", ["UTC", "EST", "CET", "Europe/Berlin", "Etc/GMT-2"])
def test_every_name_of_the_time_zone_database_is_a_zone(name: str) -> None:
    assert zone(name).name == name
