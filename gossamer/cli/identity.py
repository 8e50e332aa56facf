"""`gossamer identity` makes the key that requests are signed with (Web Bot Auth), and says what to publish."""

import argparse
import os
import re
from pathlib import Path

from gossamer.cli import options
from gossamer.cli.output import show
from gossamer.clocks import RealClock
from gossamer.errors import ConfigError
from gossamer.fetch.identity import DIRECTORY, Identity

_DAYS = 365
_WEBSITE = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?")


def identity_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "website", metavar="URL", help="your website, where the public key will be: https://example.org"
    )
    parser.add_argument(
        "--key", type=Path, default=Path("identity.json"), metavar="FILE", help="the secret (default: identity.json)"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(DIRECTORY.rpartition("/")[2]),
        metavar="FILE",
        help=f"the file to publish (default: {DIRECTORY.rpartition('/')[2]})",
    )
    options.add_json(parser)


def identity(arguments: argparse.Namespace) -> int:
    """Makes a key, unless there is one: then the same is said of it again."""
    website = arguments.website.rstrip("/")
    if not _WEBSITE.fullmatch(website):
        raise ConfigError(f"{arguments.website!r} is no website: write https:// and its name, without a path")
    found = _kept(arguments.key, website) if arguments.key.exists() else _made(arguments.key, website)
    body = found.directory()
    arguments.out.write_text(body, encoding="ascii")
    now_s = int(RealClock().now())
    fields = found.directory_fields(body.encode(), now_s, now_s + _DAYS * 86_400)
    report = {
        "key": str(arguments.key),
        "publish": {"file": str(arguments.out), "url": website + DIRECTORY, "header": fields},
        "keyid": found.keyid,
        "set": f'fetch.identity = "file:{arguments.key}"',
    }
    show(report, arguments.json, _report)
    return 0


def _made(path: Path, website: str) -> Identity:
    made = Identity.new(website)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}; name another file with --key") from None
    with os.fdopen(file, "w", encoding="ascii") as out:
        out.write(made.secret_text())
    return made


def _kept(path: Path, website: str) -> Identity:
    kept = Identity.read("--key", f"file:{path}")
    if kept.agent != website:
        raise ConfigError(f"{path} is the identity of {kept.agent}; name another file with --key")
    return kept


def _report(found: dict[str, dict[str, dict[str, str]]]) -> str:
    publish = found["publish"]
    header = "\n".join(f"    {name}: {value}" for name, value in publish["header"].items())
    return (
        f"The secret is in {found['key']}, for you alone. Sign requests with it: {found['set']}\n"
        f"Publish {publish['file']} at\n    {publish['url']}\nwith this header, which holds for {_DAYS} days"
        f" (then run the same command again):\n{header}\n"
        f"Its keyid is {found['keyid']}. docs/requests.md says who wants to be told of it."
    )
