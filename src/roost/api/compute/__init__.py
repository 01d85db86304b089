# SPDX-License-Identifier: Apache-2.0
"""Compute v2.1 under /v2.1: one module per resource, each with its handlers and how it is written as JSON."""
