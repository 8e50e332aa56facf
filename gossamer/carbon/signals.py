"""A carbon signal gives, for each place, grams of CO2 per kWh now and its source; it can be recorded and replayed."""

from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gossamer.arrays import F64, Indices, Strings
from gossamer.columns import SIGNALS
from gossamer.errors import ConfigError

EVERYWHERE = "*"
_EMPTY = "signal file {} has no row with time, place and value; write at least one"
_LATEST_S = 1e11  # seconds since 1970: no signal is from after the year 5000


class HostPlaces(NamedTuple):
    """`HostPlaces` has the places of hosts, as columns."""

    host: Strings
    country: Strings
    latitude: F64  # degrees; nan if unknown
    longitude: F64

    def only(self, numbers: Indices) -> "HostPlaces":
        return HostPlaces(self.host[numbers], self.country[numbers], self.latitude[numbers], self.longitude[numbers])


class Reading(NamedTuple):
    """A reading has one value for each place."""

    g_per_kwh: F64
    source: Strings

    def copied(self) -> "Reading":
        """Returns a copy in which values, and the names of other sources, can be put."""
        return Reading(self.g_per_kwh.copy(), self.source.astype(np.dtype("U64")))


class Signal(Protocol):
    """This port is where carbon intensity comes from."""

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        """Returns the carbon intensity at each place at this time. It always answers: what fails has a fallback."""


class Recorder:
    """`Recorder` passes a signal on and keeps a row whenever it has something new of a host."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._last: dict[str, tuple[float, str]] = {}
        self._rows: list[tuple[float, str, float, str]] = []

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        reading = self._signal.read(places, time_s)
        read = zip(places.host.tolist(), reading.g_per_kwh.tolist(), reading.source.tolist(), strict=True)
        for host, value, source in read:
            if self._last.get(host) != (value, source):
                self._last[host] = (value, source)
                self._rows.append((time_s, host, value, source))
        return reading

    def taken(self) -> dict[str, Any]:
        """Returns the rows since the last call, as columns of the SIGNALS table."""
        rows, self._rows = self._rows, []
        return {name: [row[place] for row in rows] for place, name in enumerate(SIGNALS.names)}


class Replay:
    """`Replay` is a signal from rows: the last value before now, of the host, else of its country, else of
    everywhere. A value that is older than `stale_s` does not count; 0: it counts until the next one."""

    def __init__(self, rows: pa.Table, fallback: Signal, stale_s: float = 0.0) -> None:
        self._fallback, self._stale_s = fallback, stale_s
        self._of: dict[str, tuple[F64, F64, Strings]] = {}
        columns = {name: rows.column(name).combine_chunks() for name in SIGNALS.names}
        time_s, value = _seconds(columns["time"]), columns["value"].cast(pa.float64()).to_numpy(zero_copy_only=False)
        place, source = (np.asarray(columns[name].to_pylist(), np.str_) for name in ("place", "source"))
        order = np.lexsort((time_s, place))
        names, first = np.unique(place[order], return_index=True)
        for name, part in zip(names.tolist(), np.split(order, first[1:]), strict=True):
            self._of[name] = (time_s[part], value[part], source[part])

    def read(self, places: HostPlaces, time_s: float) -> Reading:
        values, sources = np.full(len(places.host), np.nan), np.full(len(places.host), "", np.dtype("U64"))
        for wanted in (np.full(len(values), EVERYWHERE), places.country, places.host):  # the most exact one last
            names, which = np.unique(wanted, return_inverse=True)
            for number, name in enumerate(names.tolist()):
                found = self._at(name, time_s)
                if found is not None:
                    values[which == number], sources[which == number] = found
        silent = np.flatnonzero(np.isnan(values))
        if len(silent):
            other = self._fallback.read(places.only(silent), time_s)
            values[silent], sources[silent] = other.g_per_kwh, other.source
        return Reading(values, sources)

    def _at(self, place: str, time_s: float) -> tuple[float, str] | None:
        times_s, values, sources = self._of.get(place, (np.zeros(0), np.zeros(0), np.zeros(0, np.str_)))
        at = int(np.searchsorted(times_s, time_s, "right")) - 1
        if at < 0 or (self._stale_s and time_s - times_s[at] > self._stale_s):
            return None
        return float(values[at]), str(sources[at])


def load(path: Path) -> pa.Table:
    """Reads a CSV or Parquet file with the columns time (ISO 8601, or seconds since 1970), place, value; perhaps
    source. Times without a zone are UTC; rows without a value are left out. NA is Namibia, not a gap."""
    texts = {"place": pa.string(), "source": pa.string()}
    try:
        convert = pa_csv.ConvertOptions(column_types=texts, strings_can_be_null=False)
        rows = pq.read_table(path) if path.suffix == ".parquet" else pa_csv.read_csv(path, convert_options=convert)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(f"signal file {path}: {error}") from error
    missing = [name for name in ("time", "place", "value") if name not in rows.column_names]
    if missing:
        raise ConfigError(f"signal file {path} has no column {missing[0]}; it needs time, place and value (g/kWh)")
    if "source" not in rows.column_names:
        rows = rows.append_column("source", pa.array([path.name] * len(rows)))
    time, value = (rows.schema.field(name).type for name in ("time", "value"))
    if pa.types.is_null(time) or pa.types.is_null(value):
        raise ConfigError(_EMPTY.format(path))
    if not (pa.types.is_timestamp(time) or _is_number(time)):
        raise ConfigError(f"signal file {path}: time must be ISO 8601 or seconds since 1970")
    if not _is_number(value):
        raise ConfigError(f"signal file {path}: value must be a number, grams per kWh")
    rows = rows.select(SIGNALS.names).drop_null()
    _check(path, _seconds(rows.column("time").combine_chunks()), np.asarray(rows.column("value"), np.float64))
    return rows


def _check(path: Path, time_s: F64, value: F64) -> None:
    if not len(value):
        raise ConfigError(_EMPTY.format(path))
    if (time_s > _LATEST_S).any():
        raise ConfigError(f"signal file {path}: time must be in seconds; {time_s.max():.0f} seems to be milliseconds")
    wrong = value[~(np.isfinite(value) & (value >= 0))]
    if len(wrong):
        raise ConfigError(f"signal file {path}: {wrong[0]:g} is no value; write grams per kWh, 0 or more")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _seconds(time: pa.Array) -> F64:
    if not pa.types.is_timestamp(time.type):
        return np.asarray(time.cast(pa.float64()), np.float64)
    return np.asarray(time.cast(pa.timestamp("us", time.type.tz)).cast(pa.int64()), np.float64) / 1e6
