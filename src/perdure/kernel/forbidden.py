"""What workflow code may not do, why replay cannot repeat it, and what to use instead.

Tables for kernel.guards, and for kernel.loop the methods of asyncio's loop that a workflow's loop refuses.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from perdure.errors import GuardViolation
from perdure.kernel.callsite import caller
from perdure.kernel.units import UNIT


class Ban(NamedTuple):
    """Why something is refused, and what to use instead.

    `thin`: it is also refused where a thin wrapper of THIN calls it on behalf of workflow code.
    """

    why: str
    instead: str
    thin: bool = True


CLOCK: Final = Ban("the clock shows another time on replay", "perdure.now(), the recorded time of the turn", False)
SLEEP: Final = Ban(
    "it blocks every run of this thread, and again on replay", "`await perdure.sleep(…)`, a durable timer", False
)
RANDOM: Final = Ban("it draws other numbers on replay", "perdure.random(), whose draws replay repeats", False)
UUIDS: Final = Ban("it makes another id on replay", "perdure.uuid4(), whose ids replay repeats", False)
FILES: Final = Ban(
    "the files may be others on replay, and a write would be repeated",
    "an activity (perdure.side_effect for something quick, perdure.log for a line in the log)",
)
DATABASES: Final = Ban(
    "the database may hold something else on replay, and a write would be repeated",
    'an activity (with effect="transactional" for exactly-once writes)',
)
NETWORK: Final = Ban("the other side may answer differently on replay, and would be asked again", "an activity")
PROCESSES: Final = Ban("it would be done again on every replay", "an activity")
THREADS: Final = Ban(
    "what a thread does, and when, is in no history",
    "an activity (a plain `def` runs in a thread), or perdure.parallel(…) for branches of the workflow",
)
INPUT: Final = Ban("nobody types the same again on replay", "`await perdure.receive(name, type)`, answered by a signal")
SIGNALS: Final = Ban(
    "what the operating system tells the process is in no history",
    "@perdure.signal, or `await perdure.receive(name, type)`, for what the run is to be told",
)
LOOPS: Final = Ban("a second event loop runs outside the history", "`await` right here, or asyncio.create_task(…)")

# Audit events: the first net.
EVENTS: Final[dict[str, Ban]] = {
    **dict.fromkeys(("open", "glob.glob", "glob.glob/2", "pathlib.Path.glob", "pathlib.Path.rglob"), FILES),
    **dict.fromkeys(
        (
            f"os.{name}"
            for name in (
                *("chdir", "chflags", "chmod", "chown", "getxattr", "link", "listdir", "listxattr", "lockf", "mkdir"),
                *("remove", "removexattr", "rename", "rmdir", "scandir", "setxattr", "symlink", "truncate", "utime"),
                *("walk", "fwalk", "listdrives", "listmounts", "listvolumes"),
            )
        ),
        FILES,
    ),
    **dict.fromkeys(("tempfile.mkstemp", "tempfile.mkdtemp", "fcntl.fcntl", "fcntl.flock", "fcntl.lockf"), FILES),
    **dict.fromkeys(
        (
            f"shutil.{name}"
            for name in (
                *("chown", "copyfile", "copymode", "copystat", "copytree", "make_archive", "move", "rmtree"),
                "unpack_archive",
            )
        ),
        FILES,
    ),
    **dict.fromkeys(
        (
            f"socket.{name}"
            for name in (
                *("__new__", "bind", "connect", "getaddrinfo", "gethostbyaddr", "gethostbyname", "gethostname"),
                *("getnameinfo", "getservbyname", "getservbyport", "sendmsg", "sendto", "sethostname"),
            )
        ),
        NETWORK,
    ),
    **dict.fromkeys(
        (
            *("urllib.Request", "http.client.connect", "http.client.send", "ftplib.connect", "ftplib.sendcmd"),
            *("imaplib.open", "imaplib.send", "poplib.connect", "poplib.putline", "smtplib.connect", "smtplib.send"),
            "webbrowser.open",
        ),
        NETWORK,
    ),
    **dict.fromkeys(
        (
            *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.posix_spawn"),
            *("os.spawn", "os.startfile", "os.startfile/2", "os.system", "pty.spawn", "signal.pthread_kill"),
        ),
        PROCESSES,
    ),
    "_thread.start_new_thread": THREADS,
    "_thread.start_joinable_thread": THREADS,
    "time.sleep": SLEEP,
    "builtins.input": INPUT,
    "sqlite3.connect": DATABASES,
}

# Where an event is not called as the function is.
EVENT_NAMES: Final[dict[str, str]] = {
    "builtins.input": "input",
    "os.exec": "os.execv",
    "os.spawn": "os.spawnv",
    "glob.glob/2": "glob.glob",
    "os.startfile/2": "os.startfile",
    "socket.__new__": "socket.socket",
}

# Thin wrappers, by top-level module: what they do is done by whoever calls them. The ban, where there is one, tells
# better than the event what the call was for: `Popen` opens its pipes as files before it starts anything.
THIN: Final[dict[str, Ban | None]] = {
    **dict.fromkeys(("os", "posixpath", "ntpath", "genericpath", "_pyio", "io", "codecs"), None),
    **dict.fromkeys(
        ("pathlib", "shutil", "tempfile", "glob", "fnmatch", "fileinput", "filecmp", "configparser"), FILES
    ),
    **dict.fromkeys(("gzip", "bz2", "lzma", "_compression", "compression", "zipfile", "tarfile", "netrc"), FILES),
    **dict.fromkeys(("shelve", "dbm", "sqlite3"), DATABASES),
    **dict.fromkeys(("socket", "ssl", "urllib", "http", "xmlrpc", "socketserver", "webbrowser"), NETWORK),
    **dict.fromkeys(("ftplib", "imaplib", "poplib", "smtplib"), NETWORK),
    **dict.fromkeys(("requests", "urllib3", "httpx", "httpcore", "aiohttp"), NETWORK),
    **dict.fromkeys(("subprocess", "multiprocessing", "pty"), PROCESSES),
    **dict.fromkeys(("threading", "concurrent"), THREADS),
}

_ACTIVITY: Final = "an activity"
_THREAD: Final = "an activity: a plain `def` runs in a thread"
_HERE: Final = "`await` right here: the workflow's loop is already running"
_SIGNAL: Final = "@perdure.signal, or `await perdure.receive(name, type)`"

LOOP_METHODS: Final[dict[str, str]] = {
    **dict.fromkeys(("run_forever", "run_until_complete"), _HERE),
    **dict.fromkeys(("stop", "close"), "`return`: the loop ends with the workflow"),
    **dict.fromkeys(("shutdown_asyncgens", "shutdown_default_executor"), "`return`: the loop ends with the workflow"),
    "call_soon_threadsafe": "a signal to the run: handle.signal(…) may be called from outside at any time",
    **dict.fromkeys(("run_in_executor", "set_default_executor"), _THREAD),
    **dict.fromkeys(("getaddrinfo", "getnameinfo", "create_connection", "create_server", "start_tls"), _ACTIVITY),
    **dict.fromkeys(("sendfile", "create_unix_connection", "create_unix_server"), _ACTIVITY),
    **dict.fromkeys(("connect_accepted_socket", "create_datagram_endpoint"), _ACTIVITY),
    **dict.fromkeys(("connect_read_pipe", "connect_write_pipe"), _ACTIVITY),
    **dict.fromkeys(("subprocess_shell", "subprocess_exec"), _ACTIVITY),
    **dict.fromkeys(("add_reader", "remove_reader", "add_writer", "remove_writer"), _ACTIVITY),
    **dict.fromkeys(("sock_recv", "sock_recv_into", "sock_recvfrom", "sock_recvfrom_into"), _ACTIVITY),
    **dict.fromkeys(("sock_sendall", "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile"), _ACTIVITY),
    **dict.fromkeys(("add_signal_handler", "remove_signal_handler"), _SIGNAL),
    "set_task_factory": "asyncio.create_task(…) as it is: each task is a unit of the run",
    "set_exception_handler": "`try` around the await, or asyncio.TaskGroup",
    "set_debug": "nothing: asyncio's debug mode reads the clock",
}


def refuse(method: str, own_code: frozenset[str] = frozenset()) -> GuardViolation:
    """The violation for a loop method that workflow code has called; `own_code` as in kernel.callsite."""
    unit = UNIT.get(None)
    return violation(
        f"asyncio's loop.{method}()",
        caller(own_code),
        unit.text if unit is not None else None,
        Ban("it reaches outside the workflow, where replay cannot repeat it", LOOP_METHODS[method]),
    )


def violation(function: str, where: tuple[str, int] | None, unit: str | None, ban: Ban) -> GuardViolation:
    """The error, with everything that is needed to mend the line."""
    line = f" at {where[0]}:{where[1]}" if where is not None else ""
    strand = f", in unit {unit}" if unit is not None else ""
    return GuardViolation(f"{function}{line}{strand}, cannot be repeated: {ban.why}. Use {ban.instead}")
