"""The channels that `[alerts]` names. Implements `core.ports.Notifier`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...core.config import AlertsConfig
    from ...core.metrics import JobFigures
    from ...core.model import JsonObject

COMMAND = "command"


class Desk:
    """Sends by a command and by Apprise, and writes the file of figures.

    A channel is `command`, or `notify` and the number of its address, so that of two addresses
    the one that was reached is not told twice. `folder` is where the command is called;
    `commands` gives a text's commands to type the options that they need.
    """

    def __init__(self, config: AlertsConfig, folder: Path, commands: Callable[[str], str]) -> None:
        self._config = config
        self._folder = folder
        self._commands = commands

    @property
    def channels(self) -> Sequence[str]:
        command = [COMMAND] if self._config.command else []
        return [*command, *(f"notify {n}" for n in range(1, len(self._config.notify) + 1))]

    @property
    def wants_figures(self) -> bool:
        return self._config.metrics_file is not None

    def send(self, channel: str, alert: JsonObject) -> None:
        """See `Notifier.send`."""
        value = {**alert, "next": self._commands(str(alert["next"]))}
        if channel == COMMAND:
            from .command import call

            line = json.dumps(value, ensure_ascii=False) + "\n"
            call(self._config.command, line, self._folder)
        else:
            from .messages import send

            send(self._config.notify[int(channel.split()[1]) - 1], value)

    def publish(self, figures: Sequence[JobFigures]) -> None:
        """See `Notifier.publish`."""
        from ..render.metrics import exposition
        from .metrics_file import replace_file

        assert self._config.metrics_file is not None, "that is what is asked for"
        replace_file(Path(self._config.metrics_file), exposition(figures))
