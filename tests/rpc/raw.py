# SPDX-License-Identifier: Apache-2.0
"""The broker as anybody sees it who speaks AMQP, without oslo.messaging: nova's messages byte by byte, and junk."""

import json
from contextlib import contextmanager

import kombu

EXCHANGE = "nova"


class Raw:
    """Publishes bytes, each time until the broker has them, and reads replies from a queue of its own."""

    def __init__(self, connection):
        self.channel = connection.channel()
        self.connection = connection
        self.replies = kombu.Queue("reply_of_raw", channel=self.channel, auto_delete=True)
        self.replies.declare()

    def publish(self, topic, body, content_type="application/json", headers=None, exchange=EXCHANGE):
        message = self.channel.prepare_message(
            body, content_type=content_type, content_encoding="utf-8", headers=headers or {}
        )
        self.channel.basic_publish(message, exchange=exchange, routing_key=topic)

    def call(self, topic, method, version="4.0", **args):
        """As nova's client writes it; its context is part of the message."""
        message = {
            "method": method,
            "version": version,
            "args": args,
            "_msg_id": "0123456789abcdef",
            "_reply_q": self.replies.name,
            "_timeout": 60,
            "_unique_id": f"unique-{method}-{version}",
            "_context_request_id": "req-raw",
            "_context_user_id": "ann",
        }
        self.publish(topic, envelope(message))

    def reply(self):
        """The body of the next reply, as bytes."""
        received = []
        with self.connection.Consumer(self.replies, callbacks=[lambda _, message: received.append(message)]):
            self.connection.drain_events(timeout=10)
        received[0].ack()
        return received[0].body


def envelope(message):
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)})


@contextmanager
def speak(broker):
    address = f"amqp://guest:guest@127.0.0.1:{broker.port}//"
    with kombu.Connection(address, transport_options={"confirm_publish": True}) as connection:
        yield Raw(connection)
