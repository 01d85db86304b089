# SPDX-License-Identifier: Apache-2.0
"""What Roost itself has logged: a test before may have made libraries talkative."""


def own_messages(caplog):
    """The messages of Roost's own loggers."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("roost.")]
