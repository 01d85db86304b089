# SPDX-License-Identifier: Apache-2.0
"""Paste filter for nova-api: the token is the name of user and project; the token `admin` is the administrator."""


def factory(global_conf, **options):
    def wrap(app):
        def call(environ, start_response):
            token = environ.get("HTTP_X_AUTH_TOKEN", "admin")
            roles = "admin,member,reader" if token == "admin" else "member,reader"
            environ.update(HTTP_X_AUTH_TOKEN=token, HTTP_X_USER_ID=token, HTTP_X_PROJECT_ID=token, HTTP_X_ROLES=roles)
            return app(environ, start_response)

        return call

    return wrap
