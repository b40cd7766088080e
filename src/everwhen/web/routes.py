"""The addresses of the dashboard: one page for all of them, and the files that it loads.

Nothing here knows a caller or reads data: the page asks the REST API for everything, with the session of its user. The
policy lets it load, and connect to, its own origin only, and run no script and no style that is not a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyio.to_thread import run_sync
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from everwhen.web.assets import FOLDER, are_loaded, digest_of_assets, load_assets, load_everything, page

PAGES = (
    "schedules",
    "jobs",
    "new",
    "week",
    "quiet-hours",
    "approvals",
    "alerts",
    "budgets",
    "breakers",
    "audit",
    "system",
    "sign-in",
)
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_FOR_EVER = "public, max-age=31536000, immutable"


def dashboard_routes() -> Sequence[BaseRoute]:
    """Return the routes: of the files, of the page at the root, and of the page at each of its addresses."""
    below = [path for name in PAGES for path in (f"/{name}", f"/{name}/{{rest:path}}")]
    return (
        Route(f"/{FOLDER}/{{digest}}/{{path:path}}", send_asset),
        *(Route(path, send_page) for path in ("/", *below)),
    )


async def _load() -> None:
    """Read the files on a thread, where nobody has done so."""
    if not are_loaded():
        await run_sync(load_everything)


async def send_asset(request: Request) -> Response:
    await _load()
    asset = load_assets().get(request.path_params["path"])
    # A page that was opened before an upgrade asks for files that are gone; it is told to load itself again.
    if asset is None or request.path_params["digest"] != digest_of_assets():
        raise HTTPException(404)
    headers = {"cache-control": _FOR_EVER, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(asset.plain, headers=headers, media_type=asset.media_type)
    return Response(
        asset.compressed, headers={**headers, "content-encoding": "gzip"}, media_type=asset.media_type
    )


async def send_page(request: Request) -> Response:
    await _load()
    root: str = request.scope.get("root_path", "").rstrip("/")
    content = page(request.scope["path"].removeprefix(root))
    if content is None:
        raise HTTPException(404)
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
    return Response(content, headers=headers, media_type="text/html")
