# SPDX-License-Identifier: Apache-2.0
"""The request in the shape that a plugin expects: a dict up to Liberty, an object since Mitaka."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from roost.model.lazy import IdentityCache
from roost.model.legacy import as_filter_properties
from roost.model.pci import PciRequest
from roost.model.request import RequestSpec

_DICT_ARGUMENT_NAMES = frozenset({"filter_properties", "weight_properties", "weighing_properties"})
"""Argument names of plugins that expect the dict. Some plugins use them for the object."""


@dataclass(frozen=True)
class RequestContext:
    """nova's request context: the user and project of a request."""

    user_id: str | None = None
    project_id: str | None = None
    is_admin: bool = False
    request_id: str | None = None
    read_deleted: str = "no"
    roles: Sequence[str] = ()
    auth_token: str | None = None
    """Always None: plugins get no tokens."""
    service_catalog: Sequence[Any] = ()
    remote_address: str | None = None
    timestamp: Any = None
    user_domain: str | None = None
    project_domain: str | None = None
    user_name: str | None = None
    project_name: str | None = None

    @classmethod
    def of(cls, spec: RequestSpec) -> RequestContext:
        """The context of the caller; without one, user and project of the instance."""
        known = {name: spec.caller[name] for name in cls.__dataclass_fields__ if name in spec.caller}
        return cls(**{"user_id": spec.user_id, "project_id": spec.project_id, **known})

    @property
    def tenant(self) -> str | None:
        """The project id, under its old name."""
        return self.project_id

    @property
    def user(self) -> str | None:
        """The user id, under its old name."""
        return self.user_id

    def elevated(self, read_deleted: str | None = None) -> RequestContext:
        """A copy with administrator rights."""
        return replace(self, is_admin=True, read_deleted=read_deleted or self.read_deleted)

    def to_dict(self) -> dict[str, Any]:
        """All fields as a dict of plain data."""
        return asdict(self)


class TriedHostObject(NamedTuple):
    """A tried host, with the field names of nova's ComputeNode."""

    host: str
    hypervisor_hostname: str


class PciRequests(list[PciRequest]):
    """The PCI requests as a list that also has nova's attribute `requests`."""

    @property
    def requests(self) -> list[PciRequest]:
        """The PCI requests."""
        return self


class NovaRequest(RequestSpec):
    """A request with lists where nova has lists: plugins append to them and compare them with lists."""

    original: RequestSpec

    @classmethod
    def of(cls, spec: RequestSpec) -> NovaRequest:
        """The request in nova's shape, without validating it again; `original` is the request itself."""
        lists = {name: list(listed) for name in _LISTS if (listed := getattr(spec, name)) is not None}
        parts: dict[str, Any] = {
            "scheduler_hints": {name: list(values) for name, values in spec.scheduler_hints.items()},
            "pci_requests": PciRequests(spec.pci_requests),
            "original": spec,
        }
        if group := spec.instance_group:
            members, hosts = list(group.members), list(group.hosts)
            parts["instance_group"] = group.updated(members, hosts)  # type: ignore[arg-type]
        if retry := spec.retry:
            parts["retry"] = _with(retry, hosts=[TriedHostObject(*pair) for pair in retry.hosts])
        view: NovaRequest = _with(spec, cls, **lists, **parts)
        return view

    @property
    def _context(self) -> RequestContext:
        return RequestContext.of(self)

    def __getitem__(self, key: str) -> Any:
        """The item, including `context`, which only the dict had: plugins may use it under any argument name."""
        return self._context if key == "context" else super().__getitem__(key)

    def __deepcopy__(self, memo: dict[int, Any]) -> NovaRequest:
        changeable = (*_LISTS, "scheduler_hints", "flavor")
        twin: NovaRequest = _with(self, **{name: copy.deepcopy(getattr(self, name), memo) for name in changeable})
        return twin

    @property
    def is_rebuild(self) -> bool:
        """Whether it only checks that the instance may stay on its host with another image."""
        return self.original.is_rebuild


_LISTS = (
    "ignore_hosts",
    "force_hosts",
    "force_nodes",
    "requested_resources",
    "security_groups",
    "requested_networks",
)


def _with(record: Any, kind: type[Any] | None = None, **fields: Any) -> Any:
    """A copy with the given fields, which are not validated and may have other types."""
    twin = object.__new__(kind or type(record))
    object.__setattr__(twin, "__dict__", {**record.__dict__, **fields})
    return twin


class FilterProperties(dict[str, Any]):
    """The filter_properties dict of releases up to Liberty, with the attributes of the request object as well."""

    def __init__(self, spec: RequestSpec) -> None:
        super().__init__(as_filter_properties(spec))
        self["context"] = RequestContext.of(spec)
        self["config_options"] = dict(spec.config_options)
        self.spec = NovaRequest.of(spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy looks up such names before `spec` is set
            raise AttributeError(name)
        return getattr(self.spec, name)

    def __missing__(self, key: str) -> Any:
        return self.spec[key]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or (isinstance(key, str) and key in self.spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> FilterProperties:
        twin = FilterProperties(self.spec.original)  # which is immutable
        twin.clear()
        twin.update(copy.deepcopy(dict(self), memo))
        return twin

    def get(self, key: str, default: Any = None) -> Any:
        """The member of the dict, or else the attribute of the request if it is not None, or else the default."""
        return super().get(key, default) if super().__contains__(key) else self.spec.get(key, default)


_DICTS = IdentityCache[FilterProperties](most=64)
"""One dict per request, shared by all plugins: a plugin may read what an earlier plugin has written."""
_OBJECTS = IdentityCache[NovaRequest](most=64)


def as_dict(spec: RequestSpec) -> FilterProperties:
    """The request as the dict of releases up to Liberty; one shared dict per request."""
    return _DICTS.get(spec) or _DICTS.put(spec, FilterProperties(spec))


def as_object(spec: RequestSpec) -> NovaRequest:
    """The request as the object of releases since Mitaka; one shared object per request."""
    return _OBJECTS.get(spec) or _OBJECTS.put(spec, NovaRequest.of(spec))


def original_request(request: Any) -> Any:
    """The RequestSpec behind a dict or object that was passed to a plugin."""
    if isinstance(request, FilterProperties):
        return request.spec.original
    return request.original if isinstance(request, NovaRequest) else request


def wants_dict(plugin: type, *methods: str) -> bool:
    """Whether a method that the plugin itself defines has an argument with a name of the dict."""
    written = [each for each in plugin.__mro__ if each.__module__.partition(".")[0] not in ("roost", "builtins")]
    functions = [vars(each)[name] for each in written for name in methods if name in vars(each)]
    return any(not _DICT_ARGUMENT_NAMES.isdisjoint(_arguments_of(each)) for each in functions)


def _arguments_of(function: Any) -> Iterable[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # a callable without a signature
        return ()
