from tests.finished_run import finished_run, run

__all__ = ["finished_run", "run"]
