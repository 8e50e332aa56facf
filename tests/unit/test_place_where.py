"""Addresses and countries from the data that comes with the package."""

import numpy as np
import pytest

from gossamer.country_facts import facts
from gossamer.geography import coordinates, countries, kilometres


def test_well_known_addresses():
    asked = {
        "193.0.6.139": "NL",  # RIPE NCC
        "129.132.19.216": "CH",  # ETH Zurich
        "133.11.0.1": "JP",  # University of Tokyo
        "200.160.2.3": "BR",  # NIC.br
        "8.8.8.8": "US",
        "::ffff:8.8.8.8": "US",
    }
    assert countries(list(asked)).tolist() == list(asked.values())
    assert countries(list(asked) * 2).tolist() == list(asked.values()) * 2


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1", "10.1.2.3", "0.0.0.0", "255.255.255.255", "2001:db8::1", "a.test"]
)
def test_what_has_no_country(address):
    assert countries([address]).tolist() == [""]


def test_no_addresses():
    assert countries([]).tolist() == []


def test_countries_are_where_they_are():
    latitude, longitude = coordinates(["DE", "FR", "AU", "", "XX"])
    paris_berlin = kilometres(latitude[:1], longitude[:1], latitude[1:2], longitude[1:2])
    assert 400 < paris_berlin[0, 0] < 900
    assert latitude[2] < -20
    assert np.isnan(latitude[3:]).all()
    assert np.isnan(longitude[3:]).all()


def test_facts_are_plausible():
    table = facts()
    assert len(table) > 200
    for country in table.values():
        assert -90 <= country.latitude <= 90
        assert -180 <= country.longitude <= 180
        assert np.isnan(country.g_per_kwh) or 0 < country.g_per_kwh < 1500
        assert not country.mix or 0 <= sum(country.mix.values()) < 1.05
    assert table["FR"].g_per_kwh < table["DE"].g_per_kwh < table["PL"].g_per_kwh
    assert table["FR"].mix["nuclear"] > 0.5
