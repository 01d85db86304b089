# SPDX-License-Identifier: Apache-2.0
"""A real nova cloud, and Roost in nova-scheduler's place in it."""

from contextlib import contextmanager

from tests.interop.checks import tell
from tests.nova_stack.cloud import Cloud
from tests.services.stack import Scheduler

from roost.trial.private_servers import free_port


@contextmanager
def running_cloud(folder, **options):
    """A cloud without a scheduler, in this directory; it ends with the context."""
    cloud = Cloud(folder / "cloud")
    tell(f"starting a nova cloud in {cloud.dir}")
    try:
        env = cloud.up(scheduler="none", **options)
        tell(f"started with {len(env['hosts'])} nova-compute in {env['seconds']:.0f} s")
        yield cloud
    finally:
        cloud.down()


@contextmanager
def running_roost(cloud, number=1, options="", more=""):
    """A Roost scheduler that serves this cloud, ready; ended gracefully with the context."""
    scheduler = start_roost(cloud, number, options, more)
    try:
        yield scheduler
    finally:
        scheduler.stop()


def start_roost(cloud, number=1, options="", more=""):
    """Start Roost with nova.conf and a file of its own, and wait until it is ready.

    `options`: lines for [roost]; `more`: further sections, which replace those of nova.conf.
    """
    own, port = cloud.dir / f"roost{number}.conf", free_port()
    own.write_text(f"[roost]\ncloud = nova\nhealth_port = {port}\n{options}\n{more}")
    scheduler = Scheduler(cloud.dir / "logs", number, port, cloud.dir / "nova.conf", own)
    try:
        scheduler.wait_until_ready()
    except BaseException:
        scheduler.kill()
        raise
    return scheduler
