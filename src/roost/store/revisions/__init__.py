# SPDX-License-Identifier: Apache-2.0
"""One module per change of the schema, in the order of their numbers.

A revision that was released is never edited. It names tables and columns itself instead of importing `schema.py`,
which moves on. MariaDB commits at each step, so a revision must bear being run again after it was interrupted.
"""
