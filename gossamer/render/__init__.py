"""This package runs the scripts of pages in a browser that has no network: what they ask for, the crawl fetches."""
