"""Makes docs/images/progress.svg: the display of a real crawl of the demo's test web, half-way through."""

import io
import tempfile
from pathlib import Path

from rich.console import Console

from gossamer import Config, Crawl
from gossamer.cli import demo
from gossamer.crawl.stats import Stats
from gossamer.testweb.running import RunningWeb
from gossamer.watch.progress import Progress

HALF = demo.PAGES // 2


def main() -> None:
    console = Console(record=True, width=100, force_terminal=True, file=io.StringIO())
    with tempfile.TemporaryDirectory() as folder, RunningWeb(demo.web_spec()) as web:
        config = Config().replace({**demo.SETTINGS, "resolve.map": {"*": web.address}, "crawl.pages": demo.PAGES})
        progress = Progress(console, config, quiet=True)
        shown: list[Stats] = []

        def look(stats: Stats) -> None:
            progress.update(stats)
            if stats.visits >= HALF and not shown:
                shown.append(stats)
                console.print("[bold green]$[/] gossamer crawl http://h0.test/ --pages 6000")
                console.print(progress.display(stats))

        Crawl(Path(folder) / "crawl", [web.start_url], config.replace({"crawl.pages": HALF + 500})).run(look)
    target = Path(__file__).parents[1] / "docs" / "images" / "progress.svg"
    console.save_svg(str(target), title="gossamer")
    print(target)


if __name__ == "__main__":
    main()
