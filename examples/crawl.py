"""Pages that are fetched by children, ten at a time, each tried again by itself, with a progress that others can watch.

python examples/crawl.py [FILE]
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

from perdure import ChildFailed, Engine, Retry, activity, activity_info, child, each, publish, workflow


@dataclass
class Page:
    url: str
    size: int


@activity(retry=Retry(attempts=3, initial="10ms"), timeout="30s")
async def fetch(url: str) -> int:
    """Stands for the network: every seventh page needs a second attempt, and one is not there."""
    number = int(url.rpartition("/")[2])
    if number == 13:
        raise LookupError(f"{url}: 404")
    if number % 7 == 0 and activity_info().attempt == 1:
        raise ConnectionError(f"{url}: reset")
    return 100 + number


@workflow
async def page(url: str) -> Page:
    return Page(url, await fetch(url))


@workflow
async def crawl(site: str, pages: int) -> int:
    async def one(number: int) -> int:
        url = f"{site}/{number}"
        try:
            return (await child(page, url, id=f"page-{url}")).size
        except ChildFailed:
            return 0

    total = done = 0
    async for size in each(range(pages), one, limit=10):
        total, done = total + size, done + 1
        if done % 25 == 0:
            publish({"done": done, "of": pages, "bytes": total})
    return total


async def main(file: str) -> None:
    """A hundred pages, and what somebody sees who watches."""
    async with Engine(f"sqlite:///{file}", workflows=[crawl, page], activities=[fetch]) as engine:
        handle = await engine.start(crawl, "site", 100, id="crawl-site")
        async for progress in handle.watch():
            print("seen:", progress["done"], "of", progress["of"])
        print("bytes:", await handle.result())
        print("children:", await engine.count("type = 'page'"), "failed:", await engine.count("status = 'failed'"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "crawl.db"))
