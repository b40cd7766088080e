"""The same API on PostgreSQL, and over TLS."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path

import pytest

from everwhen.errors import SchedulerError
from tests.api.serving import HTTP_RUN, serving
from tests.servers.everwhen_database import PostgresDatabase


def test_a_schedule_lives_on_postgres_as_on_sqlite(everwhen_on_18: PostgresDatabase, tmp_path: Path) -> None:
    with serving(tmp_path, url=everwhen_on_18.empty()) as service:
        admin = service.admin
        made = admin.create(name="Größe", payload={"a": "\N{SNOWMAN}"}, owner="ada")
        path = f"/schedules/{made['id']}/"
        assert admin.get(path).fields == made
        assert admin.patch(path, {"every": "2h", "enabled": False}).fields["status"] == "paused"
        assert admin.patch(path, {"name": "x"}, headers={"If-Match": '"1"'}).status == 412
        assert admin.get("/schedules/?q=GR&owner=ada").fields["total"] == 1
        assert admin.get("/schedules/?q=%25").fields["total"] == 0
        for bad in ("a%00b", "%F0%9F%92%A9", "x" * 250):
            assert admin.get(f"/schedules/{bad}/").status == 404
            assert admin.get(f"/schedules/{bad}/why/").status == 404
        body = {"every": "1h", "run": HTTP_RUN}
        headers = {"Idempotency-Key": "k"}
        first = admin.post("/schedules/", body, headers=headers)
        assert admin.post("/schedules/", body, headers=headers).fields == first.fields
        assert admin.call("PUT", "/schedules/key/k/", body).status == 201
        assert admin.call("PUT", "/schedules/key/k/", body).status == 200
        batch = admin.post("/schedules/batch/", {"schedules": [body] * 3}, headers=headers).fields
        assert admin.post("/schedules/batch/", {"schedules": [body] * 3}, headers=headers).fields == batch
        limited = service.client(max_schedules=1)
        limited.create()
        assert limited.post("/schedules/", body).problem == "limit-reached"
        assert len(admin.get("/upcoming/?limit=3").fields["items"]) == 3
        for more in ("slots", "stats", "revisions", "why"):
            assert admin.get(f"{path}{more}/").status == 200
        assert admin.call("DELETE", path).status == 204
        assert admin.get(f"{path}revisions/").fields["total"] == 2


def certificate_in(folder: Path) -> tuple[str, str]:
    """Make a certificate for this machine; return its file and that of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return str(cert), str(key)


def test_it_speaks_tls(tmp_path: Path) -> None:
    cert, key = certificate_in(tmp_path)
    with serving(tmp_path, tls=(cert, key)) as service:
        assert service.url.startswith("https://")
        request = urllib.request.Request(
            f"{service.url}/api/v1/schedules/", headers={"Authorization": f"Bearer {service.admin.secret}"}
        )
        context = ssl.create_default_context(cafile=cert)
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("cert", ["nowhere.pem", "everwhen.yaml"])
def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path, cert: str) -> None:
    (tmp_path / "everwhen.yaml").write_text("api: {}\n")
    with pytest.raises(SchedulerError, match=cert), serving(tmp_path, tls=(str(tmp_path / cert),) * 2):
        pass
