# SPDX-License-Identifier: Apache-2.0
"""The users of a development cloud: an administrator and a member, with a clouds.yaml that `openstack` reads."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import Conflict
from roost.identity import ADMIN, MEMBER, SYSTEM, ProjectStore, UserStore
from roost.local_state import write_in_one_step

PASSWORD_BYTES = 16


class FirstUser(NamedTuple):
    """A user that every development cloud has."""

    cloud: str
    """Its name in clouds.yaml."""
    name: str
    project: str
    role: str
    is_of_system: bool


FIRST_USERS = (
    FirstUser("roost", "admin", "admin", ADMIN, True),
    FirstUser("roost-member", "member", "demo", MEMBER, False),
)


def make_first_users(engine: Engine, clock: Clock, path: Path, address: str) -> None:
    """Make the users that are missing, and write clouds.yaml for all of them, readable for this user alone.

    `path`: of clouds.yaml, where the passwords of earlier starts are kept. `address`: of the API.
    """
    known = _read_passwords(path)
    passwords = {each.cloud: known.get(each.cloud) or _make_user(engine, clock, each) for each in FIRST_USERS}
    clouds = {each.cloud: _cloud(each, passwords[each.cloud], address) for each in FIRST_USERS}
    write_in_one_step(path, yaml.safe_dump({"clouds": clouds}, sort_keys=False))


def _make_user(engine: Engine, clock: Clock, wanted: FirstUser) -> str:
    """Make a user with a project and a role there, or give an existing one a new password: the password."""
    users, projects = UserStore(engine, clock), ProjectStore(engine, clock)
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    if wanted.project not in {each.name for each in projects.list_projects()}:
        projects.create(wanted.project)
    project = projects.find(wanted.project).id
    roles = {project: wanted.role} | ({SYSTEM: wanted.role} if wanted.is_of_system else {})
    try:
        users.create(wanted.name, password, roles)
    except Conflict:
        users.set_password(wanted.name, password)
    return password


def _read_passwords(path: Path) -> dict[str, str]:
    """Cloud -> password, as the file has them; empty where there is none, or it was edited into something else."""
    try:
        clouds = yaml.safe_load(path.read_text(encoding="utf-8"))["clouds"]
        return {name: str(each["auth"]["password"]) for name, each in clouds.items()}
    except (OSError, yaml.YAMLError, LookupError, TypeError, AttributeError):
        return {}


def _cloud(user: FirstUser, password: str, address: str) -> dict[str, Any]:
    return {
        "auth": {
            "auth_url": f"{address}/identity/v3",
            "username": user.name,
            "password": password,
            "project_name": user.project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
        "identity_api_version": 3,
        "image_api_version": 2,
    }
