"""What a node needs of the configuration besides its schedules: plugins, workflows, subscribers, rules of alerts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from everwhen.cli.configuration import this_host
from everwhen.cli.terminal import secho
from everwhen.config.read import Configuration, FileWorkflows
from everwhen.config.sections.notify import rules_in
from everwhen.config.settings import ApiSettings, Settings, api_settings_of
from everwhen.config.submission import rules_of, with_protections
from everwhen.engine.chain import ChainWatch
from everwhen.engine.loop import Loop, Wake, WakeableSleep
from everwhen.engine.notifier import Notifier
from everwhen.engine.webhooks import WebhookSender
from everwhen.model.alerts import AlertRule
from everwhen.model.group import Groups
from everwhen.model.message import Subscriber
from everwhen.model.node import Role
from everwhen.model.queue import RQ_CHAIN, Links
from everwhen.model.schedule import Definition
from everwhen.model.variables import URL
from everwhen.operations.agent_runs import AgentRuns
from everwhen.operations.apply import Applied, protect_schedules, upgrade_notes
from everwhen.operations.groups import invalidate_unusable, restore_valid_schedules
from everwhen.operations.quiet_hours import policy_ids
from everwhen.runtime import Runtime
from everwhen.target_registry import TargetRegistry, open_target_registry
from everwhen.wiring import Stack, http_subscriber, open_links, open_notifier, open_webhook_sender


class NodeResources:
    """Plugins, workflows and subscribers of one node, created from a configuration.

    `take` switches to the next configuration, as far as that is possible while the node runs.
    """

    def __init__(
        self,
        stack: Stack,
        configuration: Configuration | None,
        settings: Settings,
        read: Callable[[], Configuration] | None = None,
    ) -> None:
        self.served_at: str | None = None  # where this process serves the API, while it does
        self._runtime = stack.runtime
        self._current = configuration or Configuration()
        self._workflows = FileWorkflows(self._current, read)
        self.target_registry: TargetRegistry = open_target_registry(
            stack.runtime,
            plugin_dirs=self._current.plugin_dirs,
            workflows=self._workflows,
            max_workers=settings.max_workers,
            allow_private_urls=self._current.allows_private_urls,
            agent_runs=AgentRuns(stack.runtime, self._self_schedule, self._address, self._serves_mcp),
        )
        self.subscribers: list[Subscriber] = [
            http_subscriber(stack, one["id"], one["http"])
            for one in (self._current.sections.get("messages") or {}).get("subscribers", ())
        ]

        self._rules = rules_in(self._current.sections.get("notify"))
        self.notifier: Notifier = open_notifier(
            stack,
            self.alert_rules,
            allow_private_urls=lambda: self._current.allows_private_urls,
            public_url=self._public_url,
        )
        self.webhooks: WebhookSender = open_webhook_sender(
            stack, allow_private_urls=lambda: self._current.allows_private_urls
        )

    @property
    def configuration(self) -> Configuration:
        """Return the configuration in force."""
        return self._current

    def alert_rules(self) -> Sequence[AlertRule]:
        """Return the rules of the configuration in force."""
        return self._rules

    def _self_schedule(self, agent: str) -> Mapping[str, Any] | None:
        group = self._current.groups.get(("agent", agent)) or {}
        found: Mapping[str, Any] | None = group.get("self_schedule")
        return found

    def _address(self) -> str | None:
        """Return where the runs of agents reach the API.

        The address of the file is not enough: `--port` overrides it, and another service may listen there, which must
        not get the token of a run.
        """
        api = self._api()
        return os.environ.get(URL) or api.url or self.served_at or api.address

    def _public_url(self) -> str | None:
        return self._api().url

    def _serves_mcp(self) -> bool:
        return self._api().mcp

    def _api(self) -> ApiSettings:
        return api_settings_of(self._current.sections.get("api"), os.environ)

    def groups(self) -> Groups:
        """Return the groups of the configuration in force."""
        return self._current.groups

    def take(self, configuration: Configuration) -> None:
        """Put a new configuration in force; schedules that could not run and can run now continue."""
        self._workflows.take(configuration)
        invalidate_unusable(self._runtime, configuration.groups)
        restore_valid_schedules(self._runtime, self.target_registry.fault_of, lambda: configuration.groups)
        for what, before, after in (
            ("plugin_dirs", self._current.plugin_dirs, configuration.plugin_dirs),
            ("messages", self._current.sections.get("messages"), configuration.sections.get("messages")),
            ("api", self._current.sections.get("api"), configuration.sections.get("api")),
        ):
            if before != after:
                secho(f"{what} changed: it takes effect at the next start", err=True, fg="yellow")
        self._current = configuration
        self._rules = rules_in(configuration.sections.get("notify"))


# The first start of a new release: stored schedules get its protections, and operators learn which ones
# changed.


def protect_stored(runtime: Runtime, configuration: Configuration) -> list[str]:
    """Give schedules from REST and Python the protections of their groups; return the ids of those that changed."""
    around = rules_of(configuration, this_host(), policy_ids(runtime))

    def protect(schedule_id: str, stored: Definition) -> Definition | None:
        return with_protections(schedule_id, stored, around)

    return protect_schedules(runtime, protect)


def tell_of_upgrade(applied: Applied, protected: Sequence[str]) -> None:
    for note in upgrade_notes(applied, protected):
        secho(note, err=True, fg="yellow")


# Nodes with `dispatch: rq-chain`, where RQ advances the schedules: what a node still does, which roles it
# refuses.


WORKER = "rq worker --with-scheduler -c everwhen.queue_workers.rq QUEUE …"
LOOP_END = 10.0


def chain_links(role: Role, settings: Settings) -> Links | None:
    """Open the queue of the links when dispatch is rq-chain; refuse the roles that have nothing to do then."""
    if settings.dispatch != RQ_CHAIN:
        return None
    if role != "up":
        raise click.UsageError(
            f"service.dispatch is rq-chain, so there is no {role} to run: RQ's own workers decide and run everything; "
            f"start one with: {WORKER}"
        )
    return open_links(settings.redis)


def tell_of_workers() -> None:
    secho(f"RQ advances the schedules; start a worker with: {WORKER}", err=True)


@contextmanager
def watching(stack: Stack, settings: Settings) -> Iterator[None]:
    """Run the watch over chains during the block, in a process that has no scheduler loop."""
    if settings.dispatch != RQ_CHAIN:
        yield
        return
    links = open_links(settings.redis)
    watch, wake, ended = ChainWatch(stack.runtime, links), Wake(), threading.Event()
    sleep = WakeableSleep(wake, stack.changes)
    stack.runtime.wake_scheduler = stack.runtime.wake_workers = wake.set

    def step() -> None:
        sleep.begin()
        watch.step()
        if not ended.is_set():
            sleep.sleep(settings.check_interval)

    loop = Loop("chain", "chain watch", step, ended)
    loop.start()
    try:
        tell_of_workers()
        yield
    finally:
        ended.set()
        wake.set()
        loop.join(LOOP_END)
        links.close()
