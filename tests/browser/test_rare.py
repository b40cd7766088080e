"""What is rare stands on the time line and in the calendar beside what fires all the time; the rest is in numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from everwhen.testing.manual import ManualClock
from everwhen.web.routes import dashboard_routes
from tests.api.serving import Service, serving
from tests.browser.conftest import opened
from tests.browser.scene import NOW

WEEK = 7 * 86_400
EACH = 8_640  # slots a day
# What the canvas draws: how many marks or bins a row has where.
DRAWN = """async ([root, answer]) => {
  const { arrange, LineModel, stretchesOf } = await import(`${root}/line_model.js`);
  const { Timeline } = await import(`${root}/timeline.js`);
  const host = document.createElement("div"), canvas = document.createElement("canvas");
  host.style.width = "1000px"; host.append(canvas); document.body.append(host);
  const line = new Timeline(canvas, { onHover() {}, onWindow() {}, onOpen() {} }), model = new LineModel(answer);
  const first = Date.parse(answer.stretches[0].from), last = Date.parse(answer.stretches.at(-1).to);
  const rows = arrange(answer.rows, answer.schedule_count), stretches = stretchesOf(answer.stretches);
  line.setData({ rows, bars: model.bars(), spans: [], stretches, hasMore: model.hasMore });
  line.setWindow([first, last]);
  line.resize();
  const found = {};
  for (const hit of line.hits) (found[hit.row.label || "all"] ||= []).push(hit.bin ? hit.bin.to : 1);
  line.close(); host.remove();
  return found;
}"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("rare")
    with serving(
        folder, file="", url="sqlite://", clock=ManualClock(NOW), further=dashboard_routes()
    ) as found:
        for number in range(4):
            found.admin.create(name=f"often-{number}", every="10s", first_run="after_interval")
        found.admin.create(name="nightly", every=None, cron="0 2 * * *", timezone="Europe/Paris")
        yield found


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    with opened(browser, service.url, service.admin.secret) as context:
        yield context.new_page()


def test_a_week_of_the_time_line_has_the_nightly_slots_beside_those_of_every_ten_seconds(
    page: Page, service: Service
) -> None:
    page.goto(f"{service.url}/?span={WEEK}&table=yes")
    table = page.get_by_role("region", name="The slots of the time line")
    nights = table.get_by_role("row").filter(has_text="nightly")
    expect(nights).to_have_count(3)  # now is at three fifths of the window
    expect(table).to_contain_text(
        re.compile(r"[\d,]+ slots of 4 further schedules are counted, and not listed here\.")
    )
    page.keyboard.press("v")
    line = page.get_by_role("region", name="Time line")
    for name in ("nightly", *(f"often-{number}" for number in range(4))):
        expect(line.get_by_role("link", name=re.compile(f"{name}$"))).to_be_visible()
    expect(line.get_by_text("all counted")).to_have_count(0)  # every schedule has a row


def test_a_row_that_is_only_counted_is_drawn_to_the_end(page: Page, service: Service) -> None:
    page.goto(f"{service.url}/breakers")
    span = "from=2026-11-17T00:00:00Z&to=2026-11-24T00:00:00Z"
    root = page.evaluate(
        "() => document.querySelector('script[type=module]').src.replace(/[^/]*$/, '')"
    ).rstrip("/")
    drawn = page.evaluate(DRAWN, [root, service.admin.get(f"/timeline/?{span}&rows=60").fields])
    often = [label for label in drawn if label != "nightly"]
    assert len(often) == 4 and len(drawn["nightly"]) == 7
    for label in often:
        bins = drawn[label]
        assert len(bins) > 190 and round(sum(bins)) == 7 * EACH
        assert min(bins[:-1]) > 0.9 * max(bins)  # as dense at the end as at the beginning
    few = page.evaluate(DRAWN, [root, service.admin.get(f"/timeline/?{span}&rows=2").fields])
    assert round(sum(few["all"])) == 4 * 7 * EACH + 7 and len(few["nightly"]) == 7


@pytest.mark.parametrize(("path", "cell", "nights"), [("/week", ".ev", 6), ("/week?as=month", ".mday", 14)])
def test_the_calendar_names_every_night_and_counts_the_rest(
    page: Page, service: Service, path: str, cell: str, nights: int
) -> None:
    """NOW is a Monday, and the 16th of November."""
    page.goto(f"{service.url}{path}")
    main = page.get_by_role("main")
    expect(main).to_contain_text("4 schedules not named here: the figures have")
    expect(main.get_by_text("More fires than can be counted")).to_have_count(0)
    expect(main.locator(cell).filter(has_text="nightly")).to_have_count(nights)


@pytest.mark.parametrize("path", [f"/?span={WEEK}", "/week"])
def test_records_that_are_not_counted_are_named(page: Page, service: Service, path: str) -> None:
    def with_uncounted(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "uncounted": 3})

    page.goto(f"{service.url}{path}")
    expect(page.get_by_text("not counted")).to_have_count(0)
    page.route("**/timeline/?*", with_uncounted)
    page.reload()
    expect(page.get_by_role("main").get_by_text("not counted: 3 records")).to_have_count(1)
