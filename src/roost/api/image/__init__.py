# SPDX-License-Identifier: Apache-2.0
"""Image v2 under /image/v2: images with their properties, without data."""
