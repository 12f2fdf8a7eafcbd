"""anatemb cache: where maps are kept, how much, and emptying it."""

import argparse

from .console import complete, megabytes, print_json, say


def add_to(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "cache",
        help="show, bound or empty the cache of embedding maps",
        description="Maps of scans embedded before are kept on disk and found again by content; shows where and how "
        "much.",
    )
    add = parser.add_argument
    add("--clear", action="store_true", help="remove every map")
    add("--limit-mb", type=megabytes, metavar="MB", help="remove the least recently used beyond MB")
    complete(parser, run, model=False)


def run(options: argparse.Namespace) -> None:
    from ..embedding.cache import MapCache, default_folder

    cache = MapCache(default_folder())
    removed = 0
    if options.clear or options.limit_mb is not None:
        removed = cache.shrink(0 if options.clear else options.limit_mb)
    facts = {
        "folder": str(cache.folder),
        "maps": cache.count(),
        "megabytes": round(cache.size_bytes() / 2**20, 1),
        "removed": removed,
    }
    if options.json:
        print_json(facts)
        return
    say(
        f"{facts['folder']}: {facts['maps']} maps, {facts['megabytes']} MB"
        + (f", {removed} removed" if removed else "")
    )
