"""A lost connection, a restarted service, two tabs, a service on another port, and the dashboard under a prefix."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import uvicorn
from playwright.sync_api import Browser, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from everwhen import Scheduler
from everwhen.api.app import create_app
from everwhen.api.context import ApiContext
from everwhen.api.rates import Rates
from everwhen.api.server import ApiServer
from everwhen.config.settings import ApiSettings
from everwhen.operations.tokens import create_token
from everwhen.web.routes import dashboard_routes
from tests.api.serving import serving
from tests.browser.conftest import opened, signed_in
from tests.browser.scene import played
from tests.servers.ports import HeldPort


def test_a_page_says_that_it_is_cut_off_and_goes_on_when_the_service_is_back(
    browser: Browser, tmp_path: Path
) -> None:
    with played(tmp_path, hours=1) as scene, ExitStack() as stack:
        context_of_api = scene.service.context
        port = HeldPort()  # reserved also while nobody listens on it
        stack.callback(port.release)
        settings = ApiSettings(port=port.number)
        server = ApiServer(create_app(context_of_api, dashboard_routes()), settings, stop_within=1)
        server.start()
        stack.callback(server.stop)
        url = server.url
        # No page tries again by itself before it is told to.
        with opened(browser, url, scene.secret, longer=3_600) as context:
            page, other = context.new_page(), context.new_page()
            page.goto(f"{url}/schedules")
            other.goto(f"{url}/schedules/recount")
            expect(page.get_by_role("link", name="recount")).to_be_visible()
            expect(other.get_by_role("button", name="Pause…")).to_be_visible()
            context_of_api.streams.close()
            server.stop()
            page.bring_to_front()
            expect(page.get_by_text("Disconnected since")).to_be_visible()
            expect(page.get_by_role("link", name="recount")).to_be_visible()  # what is known stays
            expect(page.locator(".stale").first).to_be_visible()  # and is not taken for what is so now
            again = ApiServer(
                create_app(_renewed(context_of_api), dashboard_routes()), settings, stop_within=1
            )
            again.start()
            try:
                page.get_by_role("button", name="Try now").click()
                expect(page.get_by_text("Disconnected since")).to_have_count(0)
                # What one tab does, the other one shows.
                assert scene.service.admin.post("/schedules/recount/pause/").status == 200
                row = page.get_by_role("row").filter(has_text="recount")
                expect(row).to_contain_text("Paused")
                other.bring_to_front()
                other.get_by_role("button", name="Try now").click()
                expect(other.get_by_role("button", name="Resume")).to_be_visible()
            finally:
                again.stop()


def test_a_page_that_reconnects_asks_for_everything_again_although_no_event_tells_of_it(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, file="", url="sqlite://", further=dashboard_routes()) as service,
        # No page tries again by itself before it is told to.
        opened(browser, service.url, service.admin.secret, longer=3_600) as context,
    ):
        service.admin.create(name="recount")
        page = context.new_page()
        over = {
            "status": 200,
            "content_type": "text/event-stream",
            "body": ": a stream that ends at once\n\n",
        }
        page.route("**/events/stream/*", lambda route: route.fulfill(**over))
        page.goto(f"{service.url}/schedules")
        expect(page.get_by_role("link", name="recount")).to_be_visible()
        expect(page.get_by_text("Disconnected since")).to_be_visible()
        expect(page.locator(".stale").first).to_be_visible()
        page.unroute_all()
        # With the clock stopped but for a moment, nothing asks because of an event, or once in a while.
        page.clock.pause_at(page.evaluate("new Date(Date.now() + 600_000).toISOString()"))
        with page.expect_response(lambda answer: "recent=true" in answer.url):  # the list itself
            page.get_by_role("button", name="Try now").click()
            expect(page.get_by_text("Disconnected since")).to_have_count(0)
            page.clock.run_for(500)
        expect(page.get_by_text("Disconnected since")).to_have_count(0)
        expect(page.locator(".stale")).to_have_count(0)


def test_a_page_that_opens_while_nothing_answers_says_so_and_begins_when_asked(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, file="", url="sqlite://", further=dashboard_routes()) as service,
        opened(browser, service.url, service.admin.secret) as context,
    ):
        page = context.new_page()
        page.route("**/api/v1/me/", lambda route: route.abort())
        page.goto(service.url)
        expect(page.get_by_role("heading", name="The dashboard could not begin")).to_be_visible()
        expect(page.get_by_label("Token")).to_have_count(0)  # nobody has been signed out
        page.unroute_all()
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_role("heading", name="Nothing is scheduled yet")).to_be_visible()


def test_a_page_that_asks_too_often_asks_again_when_the_service_says_so(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, url="sqlite://", further=dashboard_routes()) as service,
        opened(browser, service.url, service.admin.secret, longer=1) as context,
    ):
        rates = Rates(burst=25, per_second=20, monotonic=service.runtime.clock.monotonic)
        service.context.shares.costs = rates  # for one list of events, and another a second later
        page = context.new_page()
        statuses: list[int] = []
        page.on("response", lambda answer: statuses.append(answer.status))
        for _ in range(3):
            page.goto(f"{service.url}/audit")
            expect(page.get_by_role("table", name="Events, newest first")).to_be_visible()
            expect(page.get_by_role("alert")).to_have_count(0)
        assert 429 in statuses


def test_a_tab_whose_browser_signed_in_as_somebody_else_changes_nothing_unseen(
    browser: Browser, tmp_path: Path
) -> None:
    with serving(tmp_path, file="", url="sqlite://", further=dashboard_routes()) as service:
        made = service.admin.create(name="shared", owner="shop")
        path = f"/schedules/{made['id']}"
        other = create_token(service.runtime, "the shop", "operator", owner="shop")
        with opened(browser, service.url, service.admin.secret) as context:
            page, second = context.new_page(), context.new_page()
            page.goto(f"{service.url}{path}")
            expect(page.get_by_role("button", name="Pause…")).to_be_visible()  # all of it is there
            second.goto(f"{service.url}/schedules")
            second.get_by_role("button", name="Sign out").click()
            second.get_by_label("Token").fill(other.secret)
            second.get_by_role("button", name="Sign in").click()
            expect(second.get_by_text("the shop · operator")).to_be_visible()
            page.bring_to_front()
            page.get_by_role("button", name="Pause…").click()
            page.get_by_role("dialog").get_by_role("button", name="Pause shared").click()
            expect(page.get_by_role("alert")).to_contain_text("Another tab has signed in as the shop.")
            assert service.admin.get(f"{path}/").fields["status"] == "active"
            expect(page.get_by_text("the shop · operator")).to_be_visible()  # and what is theirs is shown
            page.get_by_role("dialog").get_by_role("button", name="Pause shared").click()
            expect(page.get_by_role("button", name="Resume")).to_be_visible()
            # A session that ended in one tab asks for a token in the other, and comes back to the same place.
            second.get_by_role("button", name="Sign out").click()
            expect(second.get_by_label("Token")).to_be_visible()
            page.clock.fast_forward(6_000)  # it asks for the status every five seconds
            page.get_by_label("Token").fill(service.admin.secret or "")
            page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("heading", name="shared", level=2)).to_be_visible()


def _renewed(context: ApiContext) -> ApiContext:
    """The context of the process that comes after: its streams are its own."""
    return replace(context)


@contextmanager
def hosted(folder: Path) -> Iterator[tuple[str, str]]:
    """The dashboard in another application, under /tools/everwhen."""
    scheduler = Scheduler(f"sqlite:///{folder}/shop.db", name="shop")
    scheduler.every("1h", id="hourly")(lambda run: None)
    secret = scheduler.create_token("of the test", "admin")
    app = Starlette(routes=[Mount("/tools/everwhen", scheduler.asgi())])
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    scheduler.start()
    thread.start()
    try:
        while not server.started:
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}/tools/everwhen", secret
    finally:
        scheduler.stop()
        scheduler.close()
        server.should_exit = True
        thread.join()


def test_the_dashboard_works_under_a_prefix(browser: Browser, tmp_path: Path) -> None:
    with hosted(tmp_path) as (url, secret), opened(browser, url, None) as context:
        page = context.new_page()
        page.goto(url)  # without the slash
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Now", level=1)).to_be_visible()
        page.get_by_role("navigation", name="Main").get_by_role("link", name="Schedules").click()
        page.get_by_role("link", name="hourly").first.click()
        expect(page).to_have_url(f"{url}/schedules/hourly")
        page.reload()
        expect(page.get_by_role("heading", name="hourly", level=2)).to_be_visible()
        assert [cookie["path"] for cookie in context.cookies()] == ["/tools/everwhen/"]


@dataclass(slots=True)
class Neighbour:
    """Another service on another port of the same host: it keeps what browsers send it, and answers with a page."""

    page: str
    heard: list[str] = field(default_factory=list)
    server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        neighbour = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                neighbour.heard.append(self.headers.get("Cookie", ""))
                body = neighbour.page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self.server.shutdown()
            thread.join()
            self.server.server_close()


def test_another_service_on_the_host_gets_the_cookie_and_can_do_nothing_with_it(
    browser: Browser, tmp_path: Path
) -> None:
    with serving(tmp_path, file="", url="sqlite://", further=dashboard_routes()) as service:
        made = service.admin.create(name="ours")
        api = f"{service.url}/api/v1"
        attack = f"""
          const paths = ["schedules/{made["id"]}/pause/", "system/pause/"];
          const sent = paths.map((path) => fetch("{api}/" + path, {{
            method: "POST", mode: "no-cors", credentials: "include", body: "{{}}" }}).catch(() => null));
          const read = fetch("{api}/me/", {{ credentials: "include" }}).then((one) => one.text(), () => "nothing");
          Promise.all([read, ...sent]).then(([text]) => {{
            document.body.textContent = text + " kept " + Object.keys(localStorage).length; }});
        """
        neighbour = Neighbour(f"<!doctype html><body><script>{attack}</script>")
        state = signed_in(service.url, service.admin.secret or "")
        with neighbour.serving(), closing(browser.new_context(storage_state=state)) as context:
            page = context.new_page()
            page.goto(neighbour.url)
            expect(page.locator("body")).to_have_text("nothing kept 0")
        stolen = {"Cookie": next(cookie for cookie in neighbour.heard if cookie)}
        for method, path in (("GET", "/me/"), ("GET", "/tokens/"), ("POST", "/system/pause/")):
            assert service.nobody.call(method, path, headers=stolen).status in (401, 403)
        assert service.admin.get(f"/schedules/{made['id']}/").fields["status"] == "active"
        assert service.admin.get("/system/status/").fields["status"] != "paused"


def test_a_page_stays_signed_in_when_it_is_loaded_again_and_so_does_another_tab(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        serving(tmp_path, file="", url="sqlite://", further=dashboard_routes()) as service,
        opened(browser, service.url, None) as context,
    ):
        page = context.new_page()
        page.goto(service.url)
        page.get_by_label("Token").fill(service.admin.secret or "")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        page.reload()
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        with context.expect_page() as following:
            page.evaluate("window.open(location.href)")
        second = following.value
        second.get_by_role("button", name="Sign out").click()
        expect(second.get_by_label("Token")).to_be_visible()
        assert page.evaluate("Object.keys(localStorage).filter((key) => key.includes('proof'))") == []
