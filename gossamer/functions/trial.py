"""`Trial` runs page functions on a single page and returns what they made of it, for those who write them."""

import json
from typing import Any

import msgspec

from gossamer.config import Config
from gossamer.fetch.request import Response
from gossamer.functions.functions import setup_of
from gossamer.functions.pool import Pool
from gossamer.functions.protocol import Task


class Trial:
    """`Trial` loads the functions when it is entered: a mistake there is seen before anything is fetched."""

    def __init__(self, config: Config) -> None:
        self._setup = setup_of(config)
        self._pool = Pool(self._setup, 1, is_shown=True)

    def __enter__(self) -> "Trial":
        self._pool.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def run(self, response: Response) -> dict[str, Any]:
        """Returns items, files, links to follow and errors. Nothing is stored."""
        request = response.request
        page = (response.http_status, response.started_s, request.depth, response.head, response.body)
        self._pool.put(Task(1, request.name, *page))
        (result,) = self._pool.finish()
        names = [*self._setup.functions]
        return {
            "items": [{"function": names[place], "item": json.loads(item)} for place, item in result.items],
            "follows": [{"url": url, "priority": priority} for url, priority in result.follows],
            "files": [
                {"function": names[place], "name": name, "bytes": len(data)} for place, name, data in result.files
            ],
            "function_errors": [msgspec.structs.asdict(each) for each in result.errors],
        }
