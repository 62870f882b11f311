"""A user's mistake is one line that names what would have been right."""

from __future__ import annotations

from d2lbert.errors import UserError, unknown_name


def test_the_nearest_names_come_first() -> None:
    error = unknown_name("data set", "sst3", ["mrpc", "sst2", "sst2_glue"])
    assert isinstance(error, UserError)
    assert str(error) == "unknown data set 'sst3': did you mean sst2 or sst2_glue?"


def test_where_none_is_near_all_are_listed_in_order() -> None:
    assert str(unknown_name("task", "zzz", ["tagging", "pair"])) == "unknown task 'zzz': known names: pair, tagging"


def test_three_suggestions_are_enough() -> None:
    error = unknown_name("name", "abcd", ["abc1", "abc2", "abc3", "abc4"])
    assert str(error).count(" or ") == 2
