from tests.browser import browser, page
from tests.finished_run import finished_run, run

__all__ = ["browser", "finished_run", "page", "run"]
