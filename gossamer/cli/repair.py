"""`gossamer verify` checks the files of a crawl, `repair` mends them, and `restore` brings a crawl back from copies."""

import argparse

from gossamer.archive.copies import restore as restore_from
from gossamer.archive.damage import files_in_words
from gossamer.cli import options
from gossamer.cli.output import counting, show
from gossamer.clocks import RealClock
from gossamer.repair.repair import Repair, check_idle
from gossamer.repair.verify import Verified
from gossamer.repair.verify import verify as verified
from gossamer.watch.figures import count, size


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser, "the directory or address to restore to; it must be absent or empty")
    text = "a directory or address that was listed in site.disks, or that holds the crawl"
    parser.add_argument("disks", metavar="DISK", nargs="+", type=options.crawl_place, help=text)


def restore(arguments: argparse.Namespace) -> int:
    files = restore_from(arguments.dir, arguments.disks)
    print(f"{files:,} files restored to {arguments.dir}; `gossamer crawl --dir {arguments.dir}` resumes the crawl")
    return 0


def verify_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    options.add_json(parser)


def verify(arguments: argparse.Namespace) -> int:
    with counting("verifying") as progress:
        found = verified(arguments.dir, progress)
    show(found.as_dict(), arguments.json, lambda _: verify_report(found, arguments.dir))
    return 1 if found.faults else 0


def verify_report(found: Verified, directory: object) -> str:
    """Returns what is wrong, file by file, and what can be done about it."""
    lines = [f"{fault.name} {fault.problem}; repair: {fault.remedy}" for fault in found.faults]
    lines.append(
        f"{files_in_words(found.files)}, {size(found.bytes)}: {count(len(found.faults))} damaged, missing or unnamed"
    )
    if found.unsummed:
        are = "has" if found.unsummed == 1 else "have"
        lines.append(f"{found.unsummed:,} of them {are} no checksum on record: written by an earlier version")
    if found.leftovers:
        them = "it" if len(found.leftovers) == 1 else "them"
        lines.append(f"{files_in_words(len(found.leftovers))} that a crash left: the next crawl removes {them}")
    if found.faults:
        lines.append(f"see what `gossamer repair {directory} --dry-run` can do, and do it with --apply")
    return "\n".join(lines)


def repair_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_crawl(parser)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--dry-run", action="store_true", help="print what would be done, and do nothing")
    what.add_argument("--apply", action="store_true", help="do it")


def repair(arguments: argparse.Namespace) -> int:
    check_idle(arguments.dir)
    with counting("verifying") as progress:
        work = Repair(arguments.dir, RealClock().now(), progress)
        if arguments.apply:
            plan = work.apply(print)
        else:
            plan = work.plan()
            print("".join(f"{line}\n" for line in plan.words()), end="")
    if not plan:
        print("nothing is damaged")
    elif arguments.dry_run:
        print(f"`gossamer repair {arguments.dir} --apply` does that; nothing is deleted")
    return 0
