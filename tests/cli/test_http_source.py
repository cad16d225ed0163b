"""A source that is an HTTP API, from the command line."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from support.api import api_scene
from support.provider import Provider, grants, reset, status
from support.scene import NIGHTS

NIGHT = NIGHTS[-1]


def table(provider: Provider) -> dict[tuple[str, str], str]:
    return {(i["account_id"], i["entitlement"]): i["level"] for i in provider.items}


def test_a_night_is_what_the_api_says_and_is_asked_for_once(tmp_path: Path) -> None:
    with Provider(grants(1050)) as provider:
        provider.token = "tok"
        scene = api_scene(tmp_path, provider, 'auth.bearer_file = "api.secret"')
        (tmp_path / "api.secret").write_text("tok\n")
        (tmp_path / "api.secret").chmod(0o600)
        ran = scene.run("run", "entitlements")
        assert (ran.code, scene.rows()) == (0, table(provider))
        assert len(provider.calls) == 11
        del provider.items[3:8]
        ran = scene.run("rerun", "entitlements", NIGHT, "-m", "again")
        assert (ran.code, scene.rows()) == (0, table(provider))
        assert "+0 -5 ~0" in ran.err
        assert scene.files() >= {"app.db"}
        assert not any("spool" in name for name in scene.files())


def test_a_pause_that_is_longer_than_max_wait_ends_the_run_and_the_next_goes_on(
    tmp_path: Path,
) -> None:
    with Provider(grants(1050)) as provider:
        scene = api_scene(tmp_path, provider)
        provider.faults[500] = [status(429, Retry_After="2")]
        file = tmp_path / "reconcile.toml"
        file.write_text(file.read_text().replace("range_size", 'max_wait = "1s"\nrange_size'))
        ran = scene.run("run", "entitlements", "--json")
        (night,) = ran.json()["intervals"]
        assert (ran.code, night["outcome"]) == (0, "waiting")
        assert night["error"]["name"] == "source_paused"
        (again,) = scene.run("run", "entitlements", "--json").json()["intervals"]
        assert (again["outcome"], again["error"]) == ("waiting", {**night["error"], "hint": ""})
        assert again["retry_at"] == night["retry_at"]
        assert not scene.rows()
        shown = scene.run("status", "entitlements")
        assert "- entitlements" in shown.err
        assert "waits: http://" in shown.err.replace("\n  ", " ")
        assert scene.run("-q", "run", "entitlements").err == ""
        made = len(provider.calls)
        assert made == 6, "the next trigger came too early, and asked for nothing"
        ran = scene.run("run", "entitlements", "--wait", "0s", "--interval", NIGHT)
        assert (ran.code, scene.rows()) == (0, table(provider))
        assert len(provider.calls) == made + 6, "of 11 pages 5 were there"


def test_a_listing_that_breaks_off_changes_nothing_and_names_the_address(tmp_path: Path) -> None:
    with Provider(grants(250)) as provider:
        scene = api_scene(tmp_path, provider)
        assert scene.run("run", "entitlements").code == 0
        before = scene.rows()
        provider.always = reset
        file = tmp_path / "reconcile.toml"
        file.write_text(file.read_text().replace("range_size", 'max_wait = "1s"\nrange_size'))
        ran = scene.run("rerun", "entitlements", NIGHT, "-m", "again")
        assert (ran.code, scene.rows()) == (69, before)
        assert f"{provider.url}/cursor does not answer" in ran.err


def test_doctor_asks_for_the_first_page_and_changes_nothing(tmp_path: Path) -> None:
    with Provider(grants(250)) as provider:
        scene = api_scene(tmp_path, provider)
        said = " ".join(scene.run("doctor").out.split())
        assert "100 rows on the first page, there is more" in said
        assert len(provider.calls) == 1
        provider.always = status(403)
        said = " ".join(scene.run("doctor").out.split())
        assert "answers 403: it does not let this caller in" in said
        assert not (tmp_path / "reconcile.db-spool").exists()


def test_a_night_of_look_ups_leaves_alone_whose_look_up_fails(tmp_path: Path) -> None:
    with Provider(grants(120)) as provider:
        scene = api_scene(tmp_path, provider)
        file = tmp_path / "reconcile.toml"
        head = file.read_text().partition("[jobs.entitlements.source]")[0]
        file.write_text(
            head.replace("range_size", 'max_wait = "1s"\nrange_size')
            + f'[jobs.entitlements.source]\nurl = "{provider.url}/users/{{account}}"\n'
            'rows = "grants"\nconcurrency = 4\n'
            f'accounts = {{ url = "{provider.url}/users", rows = "data" }}\n'
        )
        assert scene.run("run", "entitlements").code == 0
        assert scene.rows() == table(provider)
        assert len(provider.calls) == 1 + 120
        provider.of_account["acct-00007"] = [status(500)] * 99
        provider.items = [i for i in provider.items if i["account_id"] != "acct-00009"]
        ran = scene.run("rerun", "entitlements", NIGHT, "-m", "again")
        assert ran.code == 3
        assert "acct-00007" in ran.err
        assert scene.rows() == table(provider), "acct-00009 is gone, and acct-00007 is as it was"
        said = " ".join(scene.run("doctor").out.split())
        assert "119 rows on the first page, that is all" in said
        shown = scene.run("config").out
        assert f'[jobs.entitlements.source.accounts]\nurl = "{provider.url}/users"' in shown


def test_a_night_of_look_ups_of_the_targets_accounts_revokes_from_those_only(
    tmp_path: Path,
) -> None:
    with Provider(grants(120)) as provider:
        scene = api_scene(tmp_path, provider)
        assert scene.run("run", "entitlements").code == 0
        file = tmp_path / "reconcile.toml"
        head = file.read_text().partition("[jobs.entitlements.source]")[0]
        file.write_text(
            f'{head}[jobs.entitlements.source]\nurl = "{provider.url}/users/{{account}}"\n'
            'rows = "grants"\naccounts = "target"\nmissing = "nothing"\n'
        )
        provider.calls.clear()
        gone = provider.items.pop(50)
        provider.items.append({**gone, "id": "new", "account_id": "new"})

        def joins(_: Provider, __: object) -> None:
            """Somebody else writes to the target while accounts are looked up."""
            with sqlite3.connect(scene.target) as db:
                db.execute("INSERT INTO entitlements VALUES ('acct-00050x', 'login', 'basic')")
            db.close()

        provider.of_account["acct-00100"] = [joins]
        ran = scene.run("rerun", "entitlements", NIGHT, "-m", "again")
        assert (ran.code, len(provider.calls)) == (3, 120)
        assert "came to the target after" in ran.err
        joined = {("acct-00050x", "login"): "basic"}
        wanted = {key: level for key, level in table(provider).items() if key[0] != "new"}
        assert scene.rows() == wanted | joined, "who joined was not asked for, and keeps all"
        shown = scene.run("config").out
        assert 'accounts = "target"' in shown
