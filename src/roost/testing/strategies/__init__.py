# SPDX-License-Identifier: Apache-2.0
"""Strategies for hypothesis that generate tables and requests. Plugin authors install hypothesis themselves.

`host_tables()` and `specs()` suit most filters and weighers; `tables_of(columns)` varies only chosen columns.
"""
