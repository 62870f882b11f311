"""A user's mistake is one line that names what would have been right."""

from __future__ import annotations

import errno

import pytest

from d2lbert.errors import UserError, refused_by_system, require, shortened, unknown_name


def test_the_nearest_names_come_first() -> None:
    error = unknown_name("data set", "sst3", ["mrpc", "sst2", "sst2_glue"])
    assert isinstance(error, UserError)
    assert str(error) == "unknown data set 'sst3': did you mean sst2 or sst2_glue?"


def test_where_none_is_near_all_are_listed_in_order() -> None:
    assert str(unknown_name("task", "zzz", ["tagging", "pair"])) == "unknown task 'zzz': known names: pair, tagging"


def test_three_suggestions_are_enough() -> None:
    error = unknown_name("name", "abcd", ["abc1", "abc2", "abc3", "abc4"])
    assert str(error).count(" or ") == 2


def test_of_a_long_name_the_beginning_is_quoted() -> None:
    line = str(unknown_name("model", "mood" * 250_000, ["mood", "names"]))
    assert line == f"unknown model '{'mood' * 20}...': known names: mood, names"
    assert shortened("x" * 80) == "x" * 80
    assert shortened("x" * 41, 40) == "x" * 40 + "..."


def test_a_missing_package_is_named_with_the_extra_that_brings_it() -> None:
    require("this test", "test", "pytest", "numpy")
    with pytest.raises(UserError, match=r"^the server needs not_there: run pip install 'd2lbert\[serve\]'$"):
        require("the server", "serve", "numpy", "not_there")
    with pytest.raises(UserError, match=r"^the compiler needs not_there: run pip install not-there$"):
        require("the compiler", "", "not_there", install="not-there")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(errno.EACCES, "Permission denied", "a/b"), "a/b: Permission denied; check its permissions"),
        (
            OSError(errno.ENOSPC, "No space left", "a", None, "b"),
            "a and b: No space left; free space or",
        ),
        (OSError(errno.EIO, "Input/output error"), "Input/output error; check the path and its permissions"),
        (OSError("a library says no more"), "a library says no more; check the path and its permissions"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), f"{'x' * 200}...: File name too long; give a"),
    ],
)
def test_what_the_system_refuses_is_one_line_with_the_place(error: OSError, line: str) -> None:
    found = refused_by_system(error)
    assert isinstance(found, UserError)
    assert str(found).startswith(line)
