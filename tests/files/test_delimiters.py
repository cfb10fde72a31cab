"""What separates the cells of a CSV file, by hand."""

import pytest

from vaswani_transformer.files.delimiters import csv_delimiter


@pytest.mark.parametrize(
    ("header", "delimiter"),
    [
        ("en,de", ","),
        ("en;de;note", ";"),
        ("en\tde", "\t"),
        ("en|de", "|"),
        ('"Hello, my dear, dear friend";"Hallo"', ";"),
        ("text", ","),
        ("", ","),
        ("en,de;note", ","),
    ],
)
def test_the_most_frequent_outside_quotation_marks(header: str, delimiter: str) -> None:
    assert csv_delimiter(header) == delimiter
