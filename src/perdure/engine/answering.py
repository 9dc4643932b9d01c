"""Answering: what comes of the activities of a worker goes to their runs: at once if they are live, else as messages.

In:  engine.tasks, whose host this is.
Out: live runs, and the store for runs that are not here.
"""

from __future__ import annotations

import msgspec

from perdure.engine.live import Live, LocalAnswer, OpenTask
from perdure.engine.parts import Host
from perdure.model import jobs
from perdure.stores.records import Attempt, Report, Task

write = msgspec.json.Encoder().encode


class Answering:
    """perdure.engine.tasks.TaskHost."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.name = host.site.name

    def owner(self) -> int:
        """The lease under which tasks are claimed now."""
        return self._host.owner()

    def wake(self) -> None:
        """There is something to claim."""
        self._host.pump.wake()

    def claimed(self, task: Task) -> None:
        """An activity was claimed from the store: if its run is live here, so is its answer."""
        live, open_task = self._waiting(task)
        if live is not None and open_task is not None and not open_task.local:
            open_task.local = open_task.started = True
            live.local += 1

    def answered(self, task: Task, job: jobs.Ended, attempt: Attempt) -> None:
        """An activity is done: straight into the next turn, if its run is here."""
        live, open_task = self._waiting(task)
        if live is not None and open_task is not None and open_task.local:
            open_task.local = False
            live.answers.append(LocalAnswer(task, job, attempt))
            self._host.turner.ready(live)
        else:
            self._host.inbox.report(
                Report(run=task.run, id=task.id, owner=self.owner(), attempt=attempt, job=write(job))
            )

    def retried(self, task: Task, report: Report) -> None:
        """An activity failed, and is tried again."""
        live, open_task = self._waiting(task)
        if live is not None and open_task is not None and open_task.local:
            open_task.local = False
            live.local -= 1
            self._host.pump.release_soon(live)
        self._host.inbox.report(report)

    def taken(self, task: Task) -> None:
        """An activity is done, and its answer is a message in the store."""
        live, open_task = self._waiting(task)
        if live is not None and open_task is not None and open_task.local:
            open_task.local = False
            live.local -= 1
        self._host.pump.look_around()

    def _waiting(self, task: Task) -> tuple[Live | None, OpenTask | None]:
        """The run that waits for it, if it is here."""
        live = self._host.cache.lives.get(task.run)
        if live is None or not live.owned or live.ended:
            return None, None
        return live, live.tasks.get(task.seq)
