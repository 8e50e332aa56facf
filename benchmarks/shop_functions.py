import re


def product(page):
    if page.css(".sku"):
        yield {
            "name": page.css("h1").text(),
            "price": float(re.search(r"[\d.]+", page.css(".price").text())[0]),
            "sku": page.css(".sku").text(),
            "stock": page.css(".stock").text() == "in stock",
            "tags": page.css(".tag").texts(),
        }
