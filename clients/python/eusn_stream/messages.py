"""What a message holds, without Arrow and NATS. The Go package internal/pipeline/wire
and internal/labels define it; tests/golden.json is written by them."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Optional, Union

from .columns import FLAGS

Time = Union[datetime, int]  # an int is in ns since 1970

_BIT = {name: 1 << i for i, name in enumerate(FLAGS)}
_WORST_FIRST = [
    ("unlike-training", _BIT["out-of-range"] | _BIT["flat"] | _BIT["length"] | _BIT["rate"]),
    ("gap", _BIT["gap"]),
    ("poison-skipped", _BIT["poison-skipped"]),
    ("held", _BIT["held"]),
    ("idle", _BIT["idle"]),
    ("early", _BIT["early"] | _BIT["warm-up"] | _BIT["decided"]),
]


def integrity(flags: int) -> str:
    """How far to trust a prediction, in a word."""
    if flags >> len(FLAGS):
        return "unknown"  # a flag of a later version
    return next((word for word, bits in _WORST_FIRST if flags & bits), "complete")


def _table() -> list[int]:
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


_CASTAGNOLI = _table()


def crc(data: bytes) -> str:
    """CRC-32C of a payload, as the header Eusn-Crc has it."""
    c = 0xFFFFFFFF
    for b in data:
        c = _CASTAGNOLI[(c ^ b) & 0xFF] ^ (c >> 8)
    return f"{c ^ 0xFFFFFFFF:08x}"


_WILDCARD = re.compile(r"[*>{}]")
_NO_TOKEN = re.compile(r"[ \t\r\n.*>\0]")


def input_subject(subject: str, stream: str) -> str:
    """Where the samples of a stream are published."""
    if not subject.endswith(".*") or _WILDCARD.search(subject[:-2]):
        # Left in, another wildcard would be stored as a name, under which no stage reads.
        raise ValueError(f'subject "{subject}", want tokens that end in ".*", such as sensors.*, and no other wildcard')
    if not stream or _NO_TOKEN.search(stream):
        raise ValueError(f'stream "{stream}": a name must not be empty nor hold blanks, dots, * or >')
    return subject[:-1] + stream


def sample_headers(subject: str, seq: int, incarnation: str, data: bytes, end: bool) -> dict[str, str]:
    headers = {
        "Eusn-Seq": str(seq), "Eusn-Incarnation": incarnation, "Eusn-Crc": crc(data),
        "Nats-Msg-Id": f"{subject}:{incarnation}:{seq}",
    }
    if end:
        headers["Eusn-End"] = "true"
    return headers


def nanoseconds(t: Time) -> int:
    if isinstance(t, int):
        return t
    if t.tzinfo is None:
        raise ValueError(f"time {t} without a time zone: want one, such as datetime.now(timezone.utc)")
    d = t.astimezone(timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return ((d.days * 86400 + d.seconds) * 1_000_000 + d.microseconds) * 1000


def rfc3339(t: Time) -> str:
    second, rest = divmod(nanoseconds(t), 1_000_000_000)
    days, second = divmod(second, 86400)
    date = datetime.fromordinal(datetime(1970, 1, 1).toordinal() + days)
    text = f"{date.year:04d}-{date.month:02d}-{date.day:02d}T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    if rest:
        text += "." + f"{rest:09d}".rstrip("0")
    return text + "Z"


@dataclass(frozen=True)
class Label:
    """What the samples of a stream were, from a time on until before another one, or
    the sequence of a prediction (seq and row). label None takes an earlier one back."""

    stream: str
    label: Optional[str]
    who: str
    from_: Optional[Time] = None
    to: Optional[Time] = None
    seq: Optional[int] = None
    row: Optional[int] = None
    when: Optional[Time] = None  # None: now

    def message(self, job: str, now: Time) -> tuple[str, bytes, dict[str, str]]:
        """Its subject, body and headers."""
        if not self.stream or not self.who or self.label == "":
            raise ValueError("a label needs stream, who, and a label or None")
        body: dict[str, object] = {"stream": self.stream}
        if self.seq is not None and self.row is not None and self.from_ is None and self.to is None:
            body.update(seq=self.seq, row=self.row)
        elif self.seq is None and self.row is None and self.from_ is not None and self.to is not None:
            if nanoseconds(self.from_) >= nanoseconds(self.to):
                raise ValueError("a label's to must be after its from")
            body.update({"from": rfc3339(self.from_), "to": rfc3339(self.to)})
        else:
            raise ValueError("a label needs from_ and to, or seq and row")
        body.update({"withdrawn": True} if self.label is None else {"label": self.label})
        body.update(who=self.who, when=rfc3339(now if self.when is None else self.when))
        data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"Eusn-Kind": "label", "Nats-Msg-Id": hashlib.sha256(data).hexdigest()[:32]}
        return f"{job}.labels.{_NO_TOKEN.sub('_', self.stream)}", data, headers
