"""`gossamer duplicates` lists the pages of a crawl that nearly repeat another one."""

import argparse
import json

from gossamer.archive.export_text import WHOLE
from gossamer.archive.near_duplicates import MAIN, near_duplicates
from gossamer.cli import options
from gossamer.cli.query import located
from gossamer.errors import ConfigError
from gossamer.web.similar import NEAR


def duplicates_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    parser.add_argument("--whole", action="store_true", help="compare all text of pages, not their main text")
    parser.add_argument(
        "--similarity",
        type=_share,
        default=NEAR,
        metavar="SHARE",
        help="of runs of three words that two pages have in common at least (0.62)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="compare the simhashes that the crawl has noted: finds less (docs/text.md)"
    )
    options.add_json(parser, "print one JSON object per page")


def _share(text: str) -> float:
    share = float(text)
    if not 0.0 < share <= 1.0:
        raise argparse.ArgumentTypeError(f"a share is above 0, and at most 1: {text}")
    return share


def duplicates(arguments: argparse.Namespace) -> int:
    if arguments.quick and (arguments.whole or arguments.similarity != NEAR):
        raise ConfigError("--quick compares the simhashes of main texts: leave out --whole and --similarity")
    where, code = located(arguments.dir)
    found = near_duplicates(where, WHOLE if arguments.whole else MAIN, arguments.similarity, arguments.quick)
    for repeat in found:
        if arguments.json:
            print(json.dumps({**repeat._asdict(), "similarity": round(repeat.similarity, 3)}))
        else:
            print(f"{repeat.similarity:4.0%}  {repeat.url}  repeats  {repeat.of}")
    if not found and not arguments.json:
        print("no page nearly repeats another one")
    return code
