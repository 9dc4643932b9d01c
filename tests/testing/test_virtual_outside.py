"""Virtual time waits for what is really there: threads, executors, child processes, connections."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from perdure.testing import Deadlock, run_virtual, virtual_time
from tests.testing.loops import DAY, Runner, now


async def forgotten() -> None:
    """What has ended is not waited for: a deadlock is found, in spite of it."""
    with pytest.raises(Deadlock), virtual_time():
        await asyncio.Event().wait()


def test_an_answer_from_an_executor_comes_before_the_next_timer(run: Runner) -> None:
    def work(loop: asyncio.AbstractEventLoop) -> str:
        for _ in range(100):  # to the loop and back
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        return "done"

    async def main() -> None:
        began = now()
        answer = await asyncio.wait_for(asyncio.to_thread(work, asyncio.get_running_loop()), DAY)
        assert (answer, now() - began < 60) == ("done", True)

    run(main())


def test_the_end_of_a_loop_waits_for_what_its_executor_still_does() -> None:
    let_go = threading.Event()

    async def main() -> None:
        working = threading.Event()

        def work() -> None:
            working.set()
            let_go.wait()

        future = asyncio.get_running_loop().run_in_executor(None, work)
        working.wait()
        future.cancel()

    threading.Timer(0.2, let_go.set).start()
    run_virtual(main())


def test_a_thread_that_holds_the_clock_is_waited_for(run: Runner) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        with virtual_time() as clock:
            hold = clock.hold()
            hold.__enter__()

            def work() -> None:
                for _ in range(100):
                    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
                loop.call_soon_threadsafe(done.set_result, "done")
                hold.__exit__(None, None, None)

            began = now()
            thread = threading.Thread(target=work)
            thread.start()
            assert await asyncio.wait_for(done, DAY) == "done"
            assert now() - began < 60
            thread.join()
            await asyncio.sleep(DAY)  # and not longer than it holds

    run(main())


def test_the_end_of_a_hold_wakes_a_loop_that_waits(run: Runner) -> None:
    async def main() -> None:
        with virtual_time() as clock:
            holding, let_go = threading.Event(), threading.Event()

            def work() -> None:
                with clock.hold():
                    holding.set()
                    let_go.wait()

            thread = threading.Thread(target=work)
            thread.start()
            holding.wait()
            asyncio.get_running_loop().call_later(0.02, let_go.set)  # passes really, because the clock is held
            await asyncio.sleep(DAY)
            thread.join()

    run(main())


def test_a_child_process_is_waited_for(run: Runner) -> None:
    async def main() -> None:
        began = now()
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
        out, _ = await asyncio.wait_for(child.communicate(b"through a pipe"), DAY)
        assert (out, child.returncode) == (b"through a pipe", 0)
        plain = await asyncio.create_subprocess_shell("exit 3")
        assert await asyncio.wait_for(plain.wait(), DAY) == 3
        assert now() - began < DAY
        await forgotten()

    run(main())


def test_a_program_that_is_not_there_leaves_nothing_behind(run: Runner) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError):
            await asyncio.create_subprocess_exec("there-is-no-such-program")
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run(main())


def test_an_answer_over_a_connection_is_waited_for(run: Runner) -> None:
    async def main() -> None:
        here, there = socket.socketpair()

        def serve() -> None:
            there.sendall(there.recv(100).upper())
            there.recv(100)  # until the other side closes
            there.close()

        thread = threading.Thread(target=serve)
        thread.start()
        reader, writer = await asyncio.open_connection(sock=here)
        began = now()
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.read(100), DAY) == b"HELLO"
        assert now() - began < 60
        writer.close()
        await writer.wait_closed()
        thread.join()
        await forgotten()

    run(main())


def test_an_idle_connection_does_not_stop_the_clock(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> float:
        here, there = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=here)
        with there:
            await asyncio.sleep(DAY)
            await asyncio.sleep(DAY)
            writer.close()
            await writer.wait_closed()
        return now()

    assert run_virtual(main(), patience=0.02) == pytest.approx(2 * DAY)
    (record,) = caplog.records
    assert "1 open connections and 0 child processes have brought nothing for 0.02 s" in record.getMessage()


def test_a_server_that_only_listens_holds_up_nothing(run: Runner, caplog: pytest.LogCaptureFixture) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(DAY)
        writer.write(await reader.readline())
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        await asyncio.sleep(30 * DAY)
        with virtual_time(patience=0.02):
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"echo\n")
            assert await reader.readline() == b"echo\n"
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        await forgotten()

    run(main())
    assert len(caplog.records) == 1, "patience was needed for the open connection alone"
