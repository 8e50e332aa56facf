import pytest
from hypothesis import given
from hypothesis import strategies as st

from gossamer.frontier.relevance import Topic, url_words, words


def test_words_of_any_script():
    assert words("Straße & STRASSE, Ärger_im-Büro 42 x2y") == ["strasse", "strasse", "ärger", "im", "büro", "x", "y"]
    assert words("Ｆｕｌｌ ﬁne") == ["full", "fine"]
    assert words("e\u0301tude") == words("étude")
    assert words("東京天気 と京都weather") == ["東京", "京天", "天気", "と京", "京都", "weather"]
    assert words("山") == ["山"]
    assert words(" 12 _ \n") == []


def test_words_of_a_url():
    assert url_words("https://alpine-garden.example/old%20roses/soil_42.html") == [
        "alpine", "garden", "old", "roses", "soil", "html",
    ]  # fmt: skip
    assert url_words("http://xn--fake.test/%D1%80%D0%BE%D0%B7%D1%8B") == ["xn", "fake", "розы"]
    assert url_words("nonsense") == []


def test_likeness_is_an_angle():
    topic = Topic("the Garden of roses")
    assert topic.words == {"garden", "roses"}
    assert topic.likeness(words("ROSES")) == 1
    assert topic.likeness(words("roses in the garden")) == 1
    assert topic.likeness(words("roses, tulips")) == pytest.approx(0.5**0.5)
    assert topic.likeness(words("roses roses roses tulips")) == pytest.approx(0.9**0.5)
    assert topic.likeness(words("the of")) == topic.likeness([]) == 0


def test_a_link_is_judged_by_what_it_says_and_by_its_page():
    topic = Topic("roses")
    url = "http://a.test/p/17"
    assert topic.link(url, "", 0.0) == topic.link(url, "imprint", 0.0) == 0
    assert topic.link(url, "Roses", 0.0) == 1
    assert topic.link("http://b.test/roses/17", "", 0.0) == pytest.approx(0.5**0.5)
    assert 0 < topic.link(url, "", 1.0) < 0.5
    assert topic.link(url, "red roses", 0.0) < topic.link(url, "red roses", 0.3) < topic.link(url, "roses", 0.3)
    assert topic.page("Roses", "nothing of the kind") == topic.page("", "roses") == 1


@given(st.text(), st.text(), st.text(), st.text(), st.text())
def test_relevance_lies_between_0_and_1_and_grows_with_the_topic(description, more, url, anchor, text):
    topic, wider = Topic(description), Topic(f"{description} {more}")
    page = topic.page(anchor, text)
    assert 0 <= page <= 1
    assert 0 <= topic.link(url, anchor, page) <= 1 + 1e-12
    assert wider.likeness(words(text)) >= topic.likeness(words(text))
