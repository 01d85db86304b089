# SPDX-License-Identifier: Apache-2.0
"""The file of `roost plan`: a list of requests, YAML or JSON. Errors name the file and the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roost.errors import BadInput, FieldError
from roost.inspection.planned_requests import REMEDY, REQUESTS, PlannedRequest, spec_of
from roost.library import Scheduler
from roost.model import RequestSpec
from roost.model.fields import refuse_unknown
from roost.sources.documents import line_of, line_of_error, parse_document, place_in, read_text
from roost.sources.fleet_file import Fleet


@dataclass(frozen=True)
class PlanFile:
    """The requests of a file, in its order, and where each is."""

    requests: Sequence[PlannedRequest]
    place_of: Callable[[int], str]
    """Position -> the file, and the line if it can be found."""

    @classmethod
    def load(cls, file: str) -> PlanFile:
        """The requests in a file, `-` for standard input; BadInput with file and line for what is wrong."""
        path = Path(file)
        text = read_text(path)
        document, _ = parse_document(text, path)
        root = ""
        if isinstance(document, Mapping):
            root, document = "requests", _requests_of(document, path)
        try:
            requests = REQUESTS.strict(document, root)
        except FieldError as error:
            raise BadInput(f"{place_in(path, line_of_error(text, error))}: {error.message}", error.hint) from None
        if not requests:
            raise BadInput(f"{path}: there is no request in it", REMEDY)
        return cls(requests, lambda at: place_in(path, line_of(text, f"{root}[{at}]")))

    def specs(self, fleet: Fleet, scheduler: Scheduler) -> Iterator[RequestSpec]:
        """A request for the scheduler of each; BadInput with file and line for a name that is not in the fleet."""
        for at, request in enumerate(self.requests):
            try:
                yield spec_of(request, fleet, scheduler)
            except BadInput as error:
                where = f"{self.place_of(at)}: request {request.name}"
                raise BadInput(f"{where}: {error.message}", error.hint) from None


def _requests_of(document: Mapping[str, Any], path: Path) -> Any:
    try:
        refuse_unknown(document, ("requests",))
    except FieldError as error:
        raise BadInput(f"{path}: {error.message}", "write requests: and a list below it") from None
    return document.get("requests")
