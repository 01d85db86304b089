# SPDX-License-Identifier: Apache-2.0
"""Errors in the form that nova's callers know."""

import pytest

from roost.errors import DatabaseUnreachable, NoReadableCell, PlacementUnavailable
from roost.scheduler.cloud import as_nova_errors


@pytest.mark.parametrize(
    ("error", "name", "text"),
    [
        (PlacementUnavailable("POST http://secret"), "NoValidHost", "Placement cannot be used now"),
        (NoReadableCell("cell mysql://user@secret"), "NoValidHost", "cannot use its database now"),
        (DatabaseUnreachable("mysql://user@secret"), "NovaException", "cannot use its database now"),
    ],
)
def test_an_outage_has_novas_class_and_names_no_address(error, name, text):
    with pytest.raises(Exception, match=text) as caught, as_nova_errors(lambda refusal: ""):
        raise error
    assert type(caught.value).__name__ == name
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("is_own", "code"), [(True, 503), (False, 500)])
def test_a_caller_of_roost_learns_that_the_failure_may_pass_and_one_of_nova_what_it_knows(is_own, code):
    """D34: so that a conductor can say 503 to its clients."""
    with pytest.raises(Exception, match="database") as caught, as_nova_errors(lambda refusal: "", is_own):
        raise DatabaseUnreachable("mysql://user@secret")
    assert caught.value.kwargs["code"] == code
