# SPDX-License-Identifier: Apache-2.0
"""nova.objects.image_meta."""

from roost.plugins.nova_objects import ImageMeta, ImageMetaProps

__all__ = ["ImageMeta", "ImageMetaProps"]
