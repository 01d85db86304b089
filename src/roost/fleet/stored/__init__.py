# SPDX-License-Identifier: Apache-2.0
"""A fleet in the database: how hosts, aggregates, flavors, images and server groups become rows, and come back.

Start reading at `writing.py`: it says which column holds what.
"""
