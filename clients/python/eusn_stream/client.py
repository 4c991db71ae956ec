"""The client: package nats-py for the server, pyarrow for the messages."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import sys
from datetime import datetime, timezone
from typing import Any, AsyncIterator, Optional, Sequence

import nats
import nats.errors
import nats.js.errors
import pyarrow as pa
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from .columns import EXTRAS, Prediction
from .messages import Label, Time, integrity
from .publisher import Encode, Publisher, Refused

ANSWER = 5.0  # seconds for an acknowledgement


def encoder(channels: Sequence[str]) -> Encode:
    """Makes messages of samples: an Arrow IPC stream, without compression."""

    def encode(rows: Sequence[Sequence[float]], times: Sequence[Optional[int]]) -> bytes:
        columns = [pa.array([row[c] for row in rows], pa.float32()) for c in range(len(channels))]
        names = list(channels)
        if any(t is not None for t in times):
            columns.insert(0, pa.array(times, pa.timestamp("ns", "UTC")))
            names.insert(0, "ts")
        batch = pa.record_batch(columns, names=names)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue().to_pybytes()

    return encode


def decode(data: bytes, message: int) -> list[Prediction]:
    """Reads a message of a job's output."""
    table = pa.ipc.open_stream(data).read_all()
    meta = table.schema.metadata or {}
    if meta.get(b"eusn.schema") != b"prediction":
        raise ValueError("not a message of predictions")
    labels = json.loads(meta[b"eusn.labels"])
    there = set(table.column_names)
    ts = table.column("ts").cast(pa.int64()).to_pylist() if "ts" in there else [None] * table.num_rows
    names = ["stream_id", "class", "score", "flags", "seq", "row", "probability", "scores", "readout", *EXTRAS]
    column: dict[str, list[Any]] = {n: table.column(n).to_pylist() if n in there else [None] * table.num_rows for n in names}

    def extra(name: str, i: int) -> Any:
        value = column[name][i]
        return [labels[c] for c in value] if EXTRAS[name] and value is not None else value

    return [
        Prediction(stream=column["stream_id"][i], cls=labels[column["class"][i]], probability=column["probability"][i], score=column["score"][i],
                   scores=column["scores"][i], integrity=integrity(column["flags"][i]), flags=column["flags"][i], seq=column["seq"][i], row=column["row"][i],
                   time=ts[i], message=message, index=i, readout=column["readout"][i] or None, **{n: extra(n, i) for n in EXTRAS})
        for i in range(table.num_rows)
    ]


class Client(Publisher):
    """Publishes samples, reads predictions and stores labels. connect makes one."""

    def __init__(self, nc: Any, channels: Sequence[str] = (), job: str = "eusn", inbox_prefix: str = "_INBOX", **options: Any) -> None:
        self._inbox = inbox_prefix
        self._nc, self._js, self._job, self._writes = nc, nc.jetstream(timeout=ANSWER), job, bool(channels)
        super().__init__(self._publish, encoder(channels), len(channels) or 1, **options)

    async def _publish(self, subject: str, data: bytes, headers: dict[str, str]) -> None:
        try:
            await self._js.publish(subject, data, timeout=ANSWER, headers=headers)
        except nats.js.errors.APIError as err:
            if err.code == 400:  # too large, or the wrong kind: no later attempt is better
                raise Refused(f"{subject}: {err.description}") from err
            raise
        except (nats.errors.MaxPayloadError, nats.errors.ConnectionClosedError) as err:
            raise Refused(f"{subject}: {err}") from err

    async def publish(self, stream: str, samples: Sequence[Sequence[float]],
                      times: Optional[Sequence[Time]] = None, end: bool = False) -> None:
        if not self._writes:
            raise ValueError("this client only reads: give channels to publish")
        await super().publish(stream, samples, times, end)

    async def label(self, label: Label) -> bool:
        """Store a label. True: the server had this very label."""
        subject, data, headers = label.message(self._job, datetime.now(timezone.utc))
        for attempt in range(3):
            try:
                ack = await self._js.publish(subject, data, timeout=ANSWER, headers=headers)
                return bool(ack.duplicate)
            except nats.js.errors.NoStreamResponseError as err:
                raise RuntimeError(f'job "{self._job}" has no NATS stream for labels: eusn-stream labels list, with an operator\'s login, makes it') from err
            except nats.errors.TimeoutError:
                if attempt == 2:
                    raise
        raise AssertionError

    async def predictions(self, from_: Optional[int] = None, since: Optional[datetime] = None) -> AsyncIterator[Prediction]:
        """Predictions from message from_ on, from a time on, or from now on; without an end."""
        stream = self._job.upper() + "-OUT"
        if from_ is None and since is None:
            from_ = (await self._js.stream_info(stream)).state.last_seq + 1
        while True:
            start: dict[str, Any] = {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": from_}
            if from_ is None:
                assert since is not None
                start = {"deliver_policy": DeliverPolicy.BY_START_TIME, "opt_start_time": since.astimezone(timezone.utc).isoformat()}
            try:
                name = secrets.token_hex(8)
                await self._js.add_consumer(stream, ConsumerConfig(
                    name=name, ack_policy=AckPolicy.NONE, inactive_threshold=60, **start))
                pull = await self._js.pull_subscribe_bind(name, stream, inbox_prefix=f"{self._inbox}.".encode())
                while True:
                    try:
                        messages = await pull.fetch(100, timeout=ANSWER)
                    except nats.errors.TimeoutError:
                        await self._js.consumer_info(stream, name)  # it is still there
                        continue
                    for m in messages:
                        number = m.metadata.sequence.stream
                        from_ = number + 1
                        if (m.headers or {}).get("Eusn-Kind") == "job":
                            continue
                        try:
                            found = decode(m.data, number)
                        except (ValueError, KeyError, pa.ArrowInvalid) as err:
                            print(f"message {number} on {m.subject} is left out: {err}", file=sys.stderr)
                            continue
                        for p in found:
                            yield p
            except (nats.errors.Error, nats.js.errors.APIError):
                if self._nc.is_closed:
                    raise
                await asyncio.sleep(1)

    async def close(self) -> None:
        try:
            await super().close()
        finally:
            await self._nc.close()


async def connect(url: str = "nats://127.0.0.1:4222", *, channels: Sequence[str] = (), job: str = "eusn", subject: str = "sensors.*",
                  rows: int = 256, latency: float = 0.1, buffer: int = 65536, user: Optional[str] = None, password: Optional[str] = None,
                  ca: Optional[str] = None, inbox_prefix: Optional[str] = None) -> Client:
    """Connect to the server of a stage. docs/secure.md has user, password, ca and inbox_prefix."""
    options: dict[str, Any] = {"servers": [url], "name": "eusn-stream client", "max_reconnect_attempts": -1}
    if user is not None:
        options.update(user=user, password=password)
    if ca is not None:
        options.update(tls=ssl.create_default_context(cafile=ca))
    if inbox_prefix is not None:
        options.update(inbox_prefix=inbox_prefix)
    return Client(await nats.connect(**options), channels, job, inbox_prefix or "_INBOX", subject=subject, rows=rows, latency=latency, buffer=buffer)
