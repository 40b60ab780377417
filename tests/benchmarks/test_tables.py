from benchmarks.peers import tables
from benchmarks.peers.command import merged
from benchmarks.peers.environments import reason

OURS = {
    "workload": "Model I, FedOGD",
    "program": "ofediq",
    "ms": 50.0,
    "ratio": 1.0,
    "product_ms": 40.0,
    "pass_ms": 10.0,
    "steps": 160,
    "error": 0.25,
    "ofediq_error": 0.25,
    "task": "classification",
    "distance": 0.0,
    "memory_mib": 300.0,
    "start_s": 2.0,
    "others": 0.1,
}
LOOP = OURS | {"program": "torch-loop", "ms": 2000.0, "ratio": 40.0}
BROKEN = {"workload": "Model I, FedOGD", "program": "flower", "problem": "does not run here: no luck"}


def test_ratios_have_a_column_for_each_peer_and_say_who_does_not_run() -> None:
    header, _, row = tables.ratios([OURS, LOOP, BROKEN]).splitlines()
    assert header.split(" | ")[3:] == ["PyTorch loop", "Flower |"]
    assert row == "| Model I, FedOGD | 50 | 1.25 | 40x | no |"


def test_details_show_accuracy_limits_and_reasons() -> None:
    _, _, ours, loop, broken = tables.details([OURS, LOOP, BROKEN]).splitlines()
    assert "75.0 %" in ours
    assert "| 2,000 | 40 | 50 | 200 |" in loop
    assert "no luck" in broken
    assert ours.count("|") == broken.count("|")


def test_results_replace_the_old_ones_between_the_marks() -> None:
    text = f"above\n{tables.BEGIN}\nold\n{tables.END}\nbelow\n"
    once = tables.insert(text, "new")
    assert "old" not in once
    assert (once.splitlines()[0], once.splitlines()[-1]) == ("above", "below")
    assert tables.insert(once, "new") == once


def test_codecs_without_a_decoder_have_no_speed() -> None:
    figures = {"error": 0.1, "bits": 2.0, "encode": 100.0, "decode": 200.0}
    found = {"ours": {"Gaussian": figures, "D = 1,000": figures}, "size": {"Gaussian": {"bits": 3.0}}}
    assert tables.codecs(found).splitlines()[2:] == [
        "| ours | 0.1 | 2 | 100 | 200 |",
        "| size | - | 3 | - | - |",
    ]
    assert tables.sizes(found).splitlines()[2:] == ["| ours | 100 / 200 |"]


def test_limits_are_taken_at_the_best_speed_that_was_seen() -> None:
    slow = {"ms": 1.0, "mflop": 3000.0, "mbyte": 60.0, "gflops": 100.0, "gbytes": 30.0}
    fast = slow | {"gflops": 150.0, "gbytes": 20.0}
    for row in tables.with_limits([slow, fast, BROKEN])[:2]:
        assert (row["product_ms"], row["pass_ms"]) == (20.0, 2.0)


def test_a_new_row_takes_the_place_of_the_old_one() -> None:
    newer = LOOP | {"ms": 1000.0}
    assert merged([OURS, LOOP], [newer]) == [OURS, newer]


def test_the_reason_is_the_last_line_that_names_an_error() -> None:
    assert reason("Traceback\nImportError: no peer\nhint: install it\n") == "ImportError: no peer"
    assert reason("") == "no message"
