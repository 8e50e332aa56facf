import re

import scrapy


class Shop(scrapy.Spider):
    name = "shop"

    def parse(self, response):
        yield from response.follow_all(css="a.category", callback=self.parse)
        yield from response.follow_all(css="a.product", callback=self.parse_product)
        yield from response.follow_all(css="a.next", callback=self.parse)

    def parse_product(self, response):
        yield {
            "name": response.css("h1::text").get(),
            "price": float(re.search(r"[\d.]+", response.css(".price::text").get())[0]),
            "sku": response.css(".sku::text").get(),
            "stock": response.css(".stock::text").get() == "in stock",
            "tags": response.css(".tag::text").getall(),
        }
