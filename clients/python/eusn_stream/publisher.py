"""Joins the samples of streams into messages, numbers them, and sends each until it is
stored. It knows neither Arrow nor NATS: both are functions that it is given."""

from __future__ import annotations

import asyncio
import secrets
from typing import Awaitable, Callable, Optional, Sequence

from .messages import Time, input_subject, nanoseconds, sample_headers

RETRY = 0.1  # seconds before a message that was not stored is sent again

# Encode makes a message of rows and their times (ns, or None).
Encode = Callable[[Sequence[Sequence[float]], Sequence[Optional[int]]], bytes]
# Send publishes and returns when the server has stored it. It raises Refused for what
# will never be stored, and anything else for what is to be sent again.
Send = Callable[[str, bytes, dict[str, str]], Awaitable[None]]


class Refused(Exception):
    """The server will never take this message."""


class _Lane:
    """One stream: what waits, and the one message under way."""

    def __init__(self, subject: str) -> None:
        self.subject, self.seq = subject, 0
        self.rows: list[Sequence[float]] = []
        self.times: list[Optional[int]] = []
        self.ends: list[int] = []  # after so many of the waiting rows a sequence ends
        self.more = asyncio.Event()
        self.full = asyncio.Event()
        self.task: Optional[asyncio.Task[None]] = None


class Publisher:
    def __init__(self, send: Send, encode: Encode, channels: int, subject: str = "sensors.*",
                 rows: int = 256, latency: float = 0.1, buffer: int = 65536) -> None:
        if rows < 1 or buffer < rows or channels < 1:
            raise ValueError(f"channels {channels}, rows {rows}, buffer {buffer}: want 1 or more, and room for a message")
        input_subject(subject, "s")
        self._send, self._encode, self._channels, self._subject = send, encode, channels, subject
        self._rows, self._latency, self._buffer = rows, latency, buffer
        self._run = secrets.token_hex(11)
        self._lanes: dict[str, _Lane] = {}
        self._held = 0
        self._hurry = 0
        self._fault: Optional[BaseException] = None
        self._changed = asyncio.Condition()

    async def publish(self, stream: str, samples: Sequence[Sequence[float]],
                      times: Optional[Sequence[Time]] = None, end: bool = False) -> None:
        """Take samples, all or none. While the buffer is full it waits."""
        subject = input_subject(self._subject, stream)
        if any(len(s) != self._channels for s in samples) or (times is not None and len(times) != len(samples)):
            raise ValueError(f'stream "{stream}": want {self._channels} values a sample, and a time for each or none')
        at: list[Optional[int]] = [None] * len(samples) if times is None else [nanoseconds(t) for t in times]
        rows = [tuple(s) for s in samples]
        count = len(rows) + (1 if end else 0)
        if count > self._buffer:
            raise ValueError(f'stream "{stream}": {count} samples at once, and room for {self._buffer}')
        async with self._changed:
            await self._changed.wait_for(lambda: self._fault is not None or self._held + count <= self._buffer)
            if self._fault is not None:
                raise self._fault
            lane = self._lanes.get(stream)
            if lane is None:
                lane = self._lanes[stream] = _Lane(subject)
                lane.task = asyncio.create_task(self._work(lane))
            lane.rows.extend(rows)
            lane.times.extend(at)
            if end:
                lane.ends.append(len(lane.rows))
            self._held += count
            self._look(lane)

    def _look(self, lane: _Lane) -> None:
        if not lane.rows and not lane.ends:
            return
        lane.more.set()
        if len(lane.rows) >= self._rows or lane.ends or self._hurry:
            lane.full.set()

    async def flush(self) -> None:
        """Return when all that was taken is stored."""
        async with self._changed:
            self._hurry += 1
            try:
                for lane in self._lanes.values():
                    self._look(lane)
                await self._changed.wait_for(lambda: self._fault is not None or self._held == 0)
            finally:
                self._hurry -= 1
            if self._held and self._fault is not None:
                raise self._fault

    async def close(self) -> None:
        """Flush, and take no more."""
        try:
            await self.flush()
        finally:
            async with self._changed:
                self._fault = self._fault or RuntimeError("the client is closed")
                self._changed.notify_all()
            tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, lane: _Lane) -> None:
        try:
            while True:
                await lane.more.wait()
                try:
                    await asyncio.wait_for(lane.full.wait(), self._latency)
                except asyncio.TimeoutError:
                    pass
                n, end, data = self._next(lane)
                lane.seq += 1
                await self._store(lane, data, sample_headers(lane.subject, lane.seq, self._run, data, end))
                async with self._changed:
                    self._held -= n + (1 if end else 0)
                    self._look(lane)
                    self._changed.notify_all()
        except asyncio.CancelledError:
            raise
        except BaseException as err:  # nothing more can be stored in order
            async with self._changed:
                self._fault = self._fault or err
                self._changed.notify_all()

    def _next(self, lane: _Lane) -> tuple[int, bool, bytes]:
        n, end = min(self._rows, len(lane.rows)), False
        if lane.ends and lane.ends[0] <= n:
            n, end = lane.ends.pop(0), True
        lane.ends = [at - n for at in lane.ends]
        data = self._encode(lane.rows[:n], lane.times[:n])
        del lane.rows[:n], lane.times[:n]
        lane.more.clear()
        lane.full.clear()
        return n, end, data

    async def _store(self, lane: _Lane, data: bytes, headers: dict[str, str]) -> None:
        while True:
            try:
                return await self._send(lane.subject, data, headers)
            except Refused:
                raise
            except Exception:  # full, away, slow: the same message again, so that none is lost nor counted twice
                await asyncio.sleep(RETRY)
