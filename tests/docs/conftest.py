"""The browser in which the documentation is opened."""

from tests.browser.conftest import browser

__all__ = ["browser"]
