# SPDX-License-Identifier: Apache-2.0
"""Who calls the API: users, projects, roles, tokens. Start reading at `caller.py`, then `sign_in.py`.

| module | what it holds |
| --- | --- |
| `caller.py` | who calls, once a token was accepted |
| `sign_in.py` | a password, a token or an application credential in, a new token out |
| `tokens.py` | tokens, by their digest |
| `users.py`, `projects.py`, `roles.py` | who has which role where |
| `application_credentials.py` | what scripts sign in with |
| `passwords.py`, `attempts.py` | hashes of passwords; the wait after failures |
| `names.py` | what can be a name |
"""

from roost.identity.application_credentials import ApplicationCredential, ApplicationCredentialStore
from roost.identity.caller import Caller
from roost.identity.projects import Project, ProjectStore
from roost.identity.roles import ADMIN, MEMBER, READER, ROLES, SYSTEM, UNSCOPED, with_implied
from roost.identity.sign_in import SignIn
from roost.identity.tokens import AcceptedToken, IssuedToken, TokenStore
from roost.identity.users import Assignment, User, UserStore

__all__ = [
    "ADMIN",
    "MEMBER",
    "READER",
    "ROLES",
    "SYSTEM",
    "UNSCOPED",
    "AcceptedToken",
    "ApplicationCredential",
    "ApplicationCredentialStore",
    "Assignment",
    "Caller",
    "IssuedToken",
    "Project",
    "ProjectStore",
    "SignIn",
    "TokenStore",
    "User",
    "UserStore",
    "with_implied",
]
