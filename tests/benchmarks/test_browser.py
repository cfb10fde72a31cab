from benchmarks.browser import table


def test_the_table_tells_speed_agreement_and_sizes() -> None:
    row = {"name": "browser, int8", "search": "beam", "sentences_per_second": 12.345, "times_pytorch": 1.5, "equal": 0.975, "bleu": 95.1}
    lines = table({"rows": [row], "bytes": {"onnxruntime-web": [14_312_951, 3_700_000]}}).splitlines()
    assert lines[2] == "| browser, int8 | beam | 12.3 | 1.50 | 97.5 % | 95.10 |"
    assert lines[-1] == "| onnxruntime-web | 14.3 | 3.7 |"
