"""This module defines the tables that SQL sees: views over the archive's Parquet files, and their description."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from duckdb import DuckDBPyConnection as Database

from gossamer.columns import (
    FILES,
    FUNCTION_ERRORS,
    GROWING,
    ITEMS,
    LINKS,
    PAGES,
    ROBOTS,
    SIGNALS,
    STORED,
    VISITS,
    Column,
    Outcome,
    Status,
    Table,
)
from gossamer.config import Carbon
from gossamer.country_facts import WORLD_G_PER_KWH, facts

SQL_TYPES = {
    "string": "VARCHAR",
    "dict": "VARCHAR",
    "bool": "BOOLEAN",
    "u1": "UTINYINT",
    "u2": "USMALLINT",
    "u4": "UINTEGER",
    "u8": "UBIGINT",
    "i8": "BIGINT",
    "f4": "FLOAT",
    "f8": "DOUBLE",
    "time": "TIMESTAMP",  # UTC. DuckDB's type with a zone would need pytz to reach Python.
    "binary": "BLOB",
}

_GROWN = ("BOOLEAN", "BIGINT", "DOUBLE", "BLOB", "DATE", "TIMESTAMP")  # types of columns that functions add
_FETCHED = (Outcome.OK, Outcome.UNCHANGED)
# Visits that are nobody's error: content, a redirect, or our own decision not to go.
NO_ERROR = (
    *_FETCHED,
    Outcome.MOVED,
    Outcome.DENIED,
    Outcome.REFUSED_ADDRESS,
    Outcome.REFUSED_TYPE,
    Outcome.REFUSED_USE,
)

_AS_STORED = ("links", "robots", "signals", "items", "files", "function_errors")
KINDS = tuple(STORED)
# What each view reads of what is stored.
_READS = {
    **{kind: (kind,) for kind in _AS_STORED},
    "visits": ("visits",),
    "newest": ("visits",),
    "pages": ("visits", "pages", "depths"),
    "frontier": ("pages", "depths"),
    "hosts": ("visits", "pages"),
    "targets": ("visits", "links"),
}
VIEWS = tuple(_READS)


def word(member: Outcome | Status) -> str:
    """Returns how the tables spell an outcome or a status."""
    return member.name.lower()


def _of(table: Table, names: str) -> tuple[Column, ...]:
    wanted = names.split()
    return tuple(column for column in table.columns if column.name in wanted)


# A visit may find a page unchanged, moved or broken; its text is then that of the last visit with content.
_OF_INDEX = "score hits due change_rate"
_OF_VISIT = "outcome http_status reason location elapsed_s"
_OF_VERSION = (
    "content_type charset title language canonical wire_bytes body_bytes truncated digest links warc warc_offset"
    " warc_bytes noindex preferences not_for width height simhash"
)

# What the index of the crawl knows of a page, by the question that is put to it: `index_ranked(key)` and so on. It is
# read only if a query asks for one of these columns.
FROM_INDEX = {
    "ranked": (
        Column("score", "f8", "what the order ranks it by, such as its cash: the highest goes first"),
        Column("hits", "u4", "links to it, on the current versions of visited pages"),
    ),
    "due": (Column("due", "time", "when it may be visited, or visited again; NULL: never"),),
    "changing": (Column("change_rate", "f8", "changes in a day, estimated; NULL before the second visit"),),
    "waiting": (
        Column("place", "u8", "1 for the page that its agent takes next"),
        Column("ahead", "u8", "pages of its host that come before it"),
        Column("due", "time", "when it, and its host, may be visited"),
        Column("why", "string", "new, due again (refresh.policy), failed before, forbidden before"),
        Column(
            "waits_for",
            "string",
            "its host's delay (others of its host come first), its host's rest (after failures, or since it asked for"
            " it), its time (`due`); empty: nothing",
        ),
        Column("agent", "string", "the agent that will visit it"),
    ),
}

KNOWN_PAGES = Table(
    "pages",
    "one row per known page: how its latest visit went (`status` to `elapsed_s`), what the crawl thinks of it (`score`"
    " to `change_rate`, NULL where that is not known), and what it says (from `version_time`"
    " on) by the latest visit that brought content, which is an earlier one if the page was found unchanged, or has"
    " moved or gone since. Of a page that never had content they describe the latest answer; of a page never visited"
    " they are NULL",
    (
        *_of(PAGES, "key url host domain referrer round depth kind"),
        Column(
            "status",
            "string",
            "new, fetched, moved, failed (in passing), forbidden (by its server), gone, denied or refused",
        ),
        Column("visits", "i8", "how often it was visited"),
        Column("last_visit", "time", "when the latest visit began"),
        *_of(VISITS, _OF_VISIT),
        *FROM_INDEX["ranked"],
        *FROM_INDEX["due"],
        *FROM_INDEX["changing"],
        Column("version_time", "time", "when the visit began that the following columns are from"),
        *_of(VISITS, _OF_VERSION),
    ),
)

HOSTS = Table(
    "hosts",
    "one row per host",
    (
        Column("host", "string", "its name"),
        Column("domain", "string", "its registrable domain"),
        Column("pages", "i8", "pages known"),
        Column("visited", "i8", "pages visited at least once"),
        Column("visits", "i8", "visits to pages, those to robots.txt not counted"),
        Column("requisites", "i8", "visits to requisites: what pages need to be shown"),
        Column("ok", "i8", "visits that brought content, or found it unchanged"),
        Column("errors", "i8", "visits that failed: no content, no redirect, not our own decision"),
        Column("wire_bytes", "u8", "bodies as sent"),
        Column("country", "string", "where it is, as of its last visit; empty if unknown"),
        Column("energy_j", "f8", "joules that its visits took, robots.txt included"),
        Column("energy_low_j", "f8", "the same at the lower end of estimates"),
        Column("carbon_g", "f8", "grams of CO2 equivalent, of energy_j"),
        Column("first_visit", "time", "when the first request began, robots.txt included"),
        Column("last_visit", "time", "when the last request began, robots.txt included"),
        Column("mean_elapsed_s", "f8", "mean time of an exchange"),
    ),
)

TARGETS = Table(
    "targets",
    "one row per URL that a link leads to, whether we followed it or not",
    (
        Column("key", "u8", "the page"),
        Column("url", "string", "its normalised URL"),
        Column("hits", "i8", "pages that link to it, by their current versions"),
        Column("verdict", "string", "followed if any link to it was, otherwise why not"),
    ),
)

_PLACE, _AHEAD, _DUE, _WHY, _WAITS_FOR, _AGENT = FROM_INDEX["waiting"]
FRONTIER = Table(
    "frontier",
    "one row per page that will be visited, by `place`: what comes next and why, as of the last commit. Of several"
    " agents each has an order of its own. Where ranks do not follow from the index alone (PageRank, your own order)"
    " `score` is NULL, and pages are in order of discovery",
    (
        _PLACE,
        *_of(PAGES, "host url"),
        *FROM_INDEX["ranked"],
        *_of(PAGES, "depth"),
        _DUE,
        _WHY,
        _WAITS_FOR,
        _AHEAD,
        _AGENT,
        *_of(PAGES, "key"),
    ),
)

TABLES = (KNOWN_PAGES, VISITS, LINKS, HOSTS, TARGETS, ROBOTS, FRONTIER, SIGNALS, ITEMS, FILES, FUNCTION_ERRORS)

FUNCTIONS = (
    ("content(warc, warc_offset)", "VARCHAR", "the body, decoded to text"),
    ("text(warc, warc_offset)", "VARCHAR", "the readable text of the page, without markup; a `pre` keeps its lines"),
    (
        "main_text(warc, warc_offset)",
        "VARCHAR",
        "the text of the page itself, without navigation and notices (docs/text.md; needs the extra `text`)",
    ),
    ("markdown(warc, warc_offset)", "VARCHAR", "the same as Markdown"),
    ("simhash(text)", "UBIGINT", "64 bits of a text; of near-duplicates at most 4 differ: bit_count(xor(a, b)) <= 4"),
    ("language_of(text)", "VARCHAR", "the language of a text, as two letters, by what it says; empty if unclear"),
    ("body(warc, warc_offset)", "BLOB", "the body after transfer and content decoding"),
    ("header(warc, warc_offset, name)", "VARCHAR", "a header of the answer; several are joined by commas"),
)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def statements(
    database: Database,
    files: Mapping[str, Sequence[Path]],
    overlap: bool = False,
    index: bool = False,
    views: Collection[str] = VIEWS,
) -> list[str]:
    """Returns SQL that makes the views over these Parquet files; a kind without files makes an empty table. The
    database, which need not be the one to make them in, reads which columns there are. With
    `overlap` several agents may have found the same page: the first to do so counts. With `index` the functions
    `index_...` are there. Whoever needs only some `views` waits less."""
    read = {kind for view in views for kind in _READS[view]}
    made = ["CREATE SCHEMA stored"]
    made += [_stored(database, kind, table, files.get(kind, ())) for kind, table in STORED.items() if kind in read]
    if overlap and "pages" in read:
        made.append("ALTER VIEW stored.pages RENAME TO found")
        made.append(
            "CREATE VIEW stored.pages AS SELECT * FROM stored.found "
            "QUALIFY row_number() OVER (PARTITION BY key ORDER BY round, depth, referrer) = 1"
        )
    made += [] if index else [_unknown(question, columns) for question, columns in FROM_INDEX.items()]
    created = {kind: f"CREATE VIEW {kind} AS SELECT * FROM stored.{kind}" for kind in _AS_STORED}
    created |= {"visits": _visits(), "newest": _NEWEST_SQL, "pages": _pages(), "frontier": _FRONTIER_SQL}
    created |= {"hosts": _HOSTS_SQL, "targets": _TARGETS_SQL}
    return made + [sql for view, sql in created.items() if view in views]


def _unknown(question: str, columns: Sequence[Column]) -> str:
    """Returns SQL of a function that stands for an index that nobody can ask."""
    nulls = ", ".join(f"{column.name} := NULL::{SQL_TYPES[column.dtype]}" for column in columns)
    return f"CREATE MACRO index_{question}(key) AS struct_pack({nulls})"


def _stored(database: Database, kind: str, table: Table, paths: Sequence[Path]) -> str:
    if kind in GROWING and paths:
        return f"CREATE VIEW stored.{kind} AS {_grown(database, table, paths)}"
    if paths:
        present, is_mixed = _present(database, table, paths)
        return f"CREATE VIEW stored.{kind} AS {_selected(table, present, paths, is_mixed=is_mixed)}"
    columns = ", ".join(f"NULL::{SQL_TYPES[c.dtype]} AS {c.name}" for c in table.columns)
    return f"CREATE VIEW stored.{kind} AS SELECT {columns} WHERE false"


def _columns(database: Database, path: Path) -> dict[str, str]:
    """Returns the columns of a Parquet file, with their types in SQL. DuckDB reads them: it is there anyway, and Arrow
    would double the time in which a command such as `gossamer status` starts."""
    rows = database.execute(f"DESCRIBE SELECT * FROM read_parquet({quoted(str(path))})").fetchall()
    return {name: kind for name, kind, *_ in rows}


def _present(database: Database, table: Table, paths: Sequence[Path]) -> tuple[set[str], bool]:
    """Returns which columns files have, and whether some files lack some of them: an earlier version wrote those. The
    first and the last file tell, as long as they have all columns; others need not be read."""
    ends = [set(_columns(database, path)) for path in {paths[0], paths[-1]}]
    if all(end.issuperset(table.names) for end in ends):
        return ends[0], False
    found = [set(_columns(database, path)) for path in paths]
    return set.union(*found), any(names != found[0] for names in found)


def _selected(
    table: Table, present: set[str], paths: Sequence[Path], more: Sequence[str] = (), is_mixed: bool = False
) -> str:
    """Returns SQL for the rows of files that have the same columns, unless they are `is_mixed`; `more` are expressions
    for others."""
    columns = [f"{c.name if c.name in present else 'NULL'}::{SQL_TYPES[c.dtype]} AS {c.name}" for c in table.columns]
    files = f"[{', '.join(quoted(str(p)) for p in paths)}]{', union_by_name = true' if is_mixed else ''}"
    return f"SELECT {', '.join([*columns, *more])} FROM read_parquet({files})"


def _grown(database: Database, table: Table, paths: Sequence[Path]) -> str:
    """Returns SQL for the rows of files that may have columns of their own. Where two files have different types for a
    column of the same name, it is a number if both are, and text otherwise."""
    schemas = [_columns(database, path) for path in paths]
    kinds: dict[str, set[str]] = {}
    for schema in schemas:
        for name, kind in schema.items():
            if name not in table.names:
                kinds.setdefault(name, set()).add(_sql_type(kind))
    common = {name: _common(found) for name, found in kinds.items()}
    groups: dict[tuple[str, ...], list[Path]] = {}
    for path, schema in zip(paths, schemas, strict=True):
        groups.setdefault(tuple(schema), []).append(path)
    return " UNION ALL BY NAME ".join(
        _selected(
            table,
            set(names),
            group,
            more=[f"{_name(each)}::{common[each]} AS {_name(each)}" for each in names if each in common],
        )
        for names, group in groups.items()
    )


def _sql_type(kind: str) -> str:
    if kind.endswith("[]"):
        return f"{_sql_type(kind[:-2])}[]"
    plain = kind.removesuffix(" WITH TIME ZONE")
    return plain if plain in _GROWN else "VARCHAR"


def _common(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "DOUBLE" if kinds == {"BIGINT", "DOUBLE"} else "VARCHAR"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _visits() -> str:
    """Returns the SQL of visits. A crawl without an account of carbon stores none: by the bytes of a visit, the
    defaults of [carbon] and the mean of its country it follows all the same."""
    carbon = Carbon()
    high_j, low_j = (
        f"if(address = '', 0, wire_bytes * {kwh * 3.6e6 / 1e9}::DOUBLE + {carbon.request_j}::DOUBLE)"
        for kwh in (carbon.kwh_per_gb, carbon.kwh_per_gb_low)
    )
    means = {code: country.g_per_kwh for code, country in facts().items() if country.g_per_kwh == country.g_per_kwh}
    # No join: rows are in order of their visits, and SQL keeps that.
    # One literal, and not a list of them: each of the views over this one would bind them all again.
    grams = quoted(f"{{{', '.join(f'{code}={g_per_kwh}' for code, g_per_kwh in means.items())}}}")
    mean = f"coalesce(({grams}::MAP(VARCHAR, DOUBLE))[country], {WORLD_G_PER_KWH}::DOUBLE)"
    follows = {
        "g_per_kwh": mean,
        "energy_j": high_j,
        "energy_low_j": low_j,
        "carbon_g": f"{high_j} * {mean} / 3.6e6",
    }
    values = ", ".join(
        f"CASE WHEN country IS NULL THEN {name} ELSE coalesce({name}, {value}) END AS {name}"
        for name, value in follows.items()
    )
    return f"CREATE VIEW visits AS SELECT * REPLACE ({values}) FROM stored.visits"


def _united(name: str, apart: str) -> str:
    """Returns SQL for words of a page's version `c`, and those of its latest visit `v`, which may have found the same
    content under another header or robots.txt."""
    both = f"string_split(c.{name} || {apart} || v.{name}, {apart})"
    return f"""CASE WHEN coalesce(v.{name}, '') IN ('', c.{name}) THEN c.{name}
        WHEN coalesce(c.{name}, '') = '' THEN v.{name}
        ELSE array_to_string(list_sort(list_distinct({both})), {apart}) END AS {name}"""


_UNITED = {"preferences": _united("preferences", "chr(10)"), "not_for": _united("not_for", "' '")}


_NEWEST_FIRST = "time DESC, round DESC, warc_offset DESC"
# The latest visit of each page.
_NEWEST_SQL = f"""CREATE VIEW stored.newest AS
    SELECT *, count(*) OVER (PARTITION BY key) AS visits FROM stored.visits WHERE NOT is_robots
    QUALIFY row_number() OVER (PARTITION BY key ORDER BY {_NEWEST_FIRST}) = 1"""


def _pages() -> str:
    # Windows, not joins with max(time): two visits may begin in the same millisecond. DuckDB reads only the columns
    # that a query asks for. (One GROUP BY with arg_max per column would need thrice the memory.)
    visit = ", ".join(f"v.{name}" for name in _OF_VISIT.split())
    version = ", ".join(_UNITED.get(name, f"c.{name}") for name in _OF_VERSION.split())
    return f"""CREATE VIEW pages AS
        SELECT p.key, p.url, p.host, p.domain, p.referrer, p.round, least(p.depth, d.depth) AS depth,
            coalesce(v.kind, p.kind, 'page') AS kind,
            coalesce(v.status, {quoted(word(Status.NEW))}) AS status,
            coalesce(v.visits, 0) AS visits, v.time AS last_visit, {visit},
            index_ranked(p.key).score AS score, index_ranked(p.key).hits AS hits, index_due(p.key).due AS due,
            index_changing(p.key).change_rate AS change_rate, c.time AS version_time, {version}
        FROM stored.pages p LEFT JOIN (
            SELECT key, min(depth) AS depth FROM stored.depths GROUP BY key
        ) d ON d.key = p.key LEFT JOIN stored.newest v ON v.key = p.key LEFT JOIN (
            SELECT * FROM stored.visits WHERE NOT is_robots
            QUALIFY row_number() OVER (
                PARTITION BY key ORDER BY outcome = {quoted(word(Outcome.OK))} DESC, {_NEWEST_FIRST}
            ) = 1
        ) c ON c.key = p.key"""


# One expression for all of it: DuckDB computes it once.
_FRONTIER_SQL = """CREATE VIEW frontier AS
    SELECT w.place AS place, url, host, index_ranked(key).score AS score, index_ranked(key).hits AS hits, depth,
        w.due AS due, w.why AS why, w.waits_for AS waits_for, w.ahead AS ahead, w.agent AS agent, key
    FROM (
        SELECT p.key, p.host, p.url, least(p.depth, d.depth) AS depth, index_waiting(p.key) AS w
        FROM stored.pages p LEFT JOIN (
            SELECT key, min(depth) AS depth FROM stored.depths GROUP BY key
        ) d ON d.key = p.key
    ) WHERE w.place IS NOT NULL ORDER BY w.place, w.agent"""


def _words(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(quoted(word(outcome)) for outcome in outcomes)


# A host can have visits and no pages: a robots.txt that redirects to another host.
_OF_A_PAGE = "NOT is_robots AND coalesce(kind, 'page') = 'page'"
_HOSTS_SQL = f"""CREATE VIEW hosts AS
    SELECT coalesce(p.host, v.host) AS host, p.domain, coalesce(p.pages, 0) AS pages,
        coalesce(v.visited, 0) AS visited, coalesce(v.visits, 0) AS visits,
        coalesce(v.requisites, 0) AS requisites, coalesce(v.ok, 0) AS ok,
        coalesce(v.errors, 0) AS errors, coalesce(v.wire_bytes, 0) AS wire_bytes, coalesce(v.country, '') AS country,
        coalesce(v.energy_j, 0) AS energy_j, coalesce(v.energy_low_j, 0) AS energy_low_j,
        coalesce(v.carbon_g, 0) AS carbon_g,
        v.first_visit, v.last_visit, v.mean_elapsed_s
    FROM (
        SELECT host, any_value(domain) AS domain, count(*) FILTER (coalesce(kind, 'page') = 'page') AS pages
        FROM stored.pages GROUP BY host
    ) p
    FULL JOIN (
        SELECT host, count(DISTINCT key) FILTER ({_OF_A_PAGE}) AS visited,
            count(*) FILTER ({_OF_A_PAGE}) AS visits, count(*) FILTER (kind = 'requisite') AS requisites,
            count(*) FILTER ({_OF_A_PAGE} AND outcome IN ({_words(_FETCHED)})) AS ok,
            count(*) FILTER ({_OF_A_PAGE} AND outcome NOT IN ({_words(NO_ERROR)})) AS errors,
            sum(wire_bytes)::UBIGINT AS wire_bytes, arg_max(country, time) AS country, sum(energy_j) AS energy_j,
            sum(energy_low_j) AS energy_low_j, sum(carbon_g) AS carbon_g,
            min(time) AS first_visit, max(time) AS last_visit,
            avg(elapsed_s) FILTER (http_status > 0) AS mean_elapsed_s
        FROM visits GROUP BY host
    ) v ON v.host = p.host"""

# Only the links of a page's current version count, and none of a page that is gone. That a visit failed or was
# forbidden tells nothing about the version.
_UNTOLD = ", ".join(quoted(word(status)) for status in (Status.FAILED, Status.FORBIDDEN))
_TARGETS_SQL = f"""CREATE VIEW targets AS
    WITH current AS (
        SELECT key, arg_max(round, (time, round)) AS round FROM stored.visits
        WHERE NOT is_robots AND outcome <> {quoted(word(Outcome.UNCHANGED))} AND status NOT IN ({_UNTOLD})
        GROUP BY key
    )
    SELECT target AS key, any_value(target_url) AS url,
        count(DISTINCT source) FILTER (l.round = c.round) AS hits,
        CASE WHEN bool_or(verdict IN ('followed', 'later')) THEN 'followed' ELSE min(verdict) END AS verdict
    FROM stored.links l LEFT JOIN current c ON c.key = l.source GROUP BY target"""


def describe() -> str:
    """Describes all tables, columns and functions as a Markdown page (docs/tables.md)."""
    lines = [
        "# The tables",
        "",
        '`gossamer query DIR "SQL"` runs [DuckDB](https://duckdb.org) SQL over a crawl. It only reads, and',
        "the crawl may be running. Times are UTC. Columns that the version that wrote a row did not have are NULL.",
        "Keys join the tables: `links.source`, `links.target` and `pages.referrer` are keys of pages.",
    ]
    for table in TABLES:
        lines += ["", f"## {table.name}", "", f"{table.meaning[0].upper()}{table.meaning[1:]}.", ""]
        lines += ["| column | type | meaning |", "|---|---|---|"]
        lines += [f"| `{c.name}` | {SQL_TYPES[c.dtype]} | {c.meaning} |" for c in table.columns]
    lines += ["", "## Functions", "", "They read the WARC files. NULL where nothing was stored.", ""]
    lines += ["| function | type | meaning |", "|---|---|---|"]
    lines += [f"| `{call}` | {kind} | {meaning} |" for call, kind, meaning in FUNCTIONS]
    lines += ["", "## Examples"]
    for meaning, sql in EXAMPLES.items():
        lines += ["", f"{meaning}:", "", "```sql", sql, "```"]
    return "\n".join(lines) + "\n"


EXAMPLES = {
    "What became of the pages": "SELECT status, count(*) AS pages FROM pages GROUP BY status ORDER BY pages DESC",
    "What comes next, and why": "SELECT place, url, why, waits_for, due FROM frontier ORDER BY place LIMIT 10",
    "The most linked pages": "SELECT url, hits FROM targets ORDER BY hits DESC, url LIMIT 10",
    "The slowest hosts": "SELECT host, visits, round(mean_elapsed_s, 3) AS mean_s FROM hosts\n"
    "WHERE mean_elapsed_s IS NOT NULL ORDER BY mean_elapsed_s DESC, host LIMIT 10",
    "The text of pages about something": "SELECT url, text(warc, warc_offset) AS text FROM pages "
    "WHERE title ILIKE '%gossamer%'",
    "Which pages link to pages that are gone": "SELECT s.url AS source, t.url AS target FROM links l\n"
    "JOIN pages s ON s.key = l.source JOIN pages t ON t.key = l.target\n"
    "WHERE t.status = 'gone' ORDER BY source, target",
    "Pages per minute": "SELECT date_trunc('minute', time) AS minute, count(*) AS pages FROM visits\n"
    "WHERE NOT is_robots GROUP BY minute ORDER BY minute",
}
