# SPDX-License-Identifier: Apache-2.0
"""Identity v3 under /identity/v3: sign-in, projects, users, application credentials."""
