"""Run by TestPythonClient (integration/python_test.go): holds the module to what the
program itself makes, which comes as JSON on standard input."""

import base64
import json
import sys

from eusn_stream import Label, integrity
from eusn_stream.messages import crc, input_subject, nanoseconds, rfc3339, sample_headers

want = json.load(sys.stdin)
for flags, word in enumerate(want["integrity"]):
    assert integrity(flags) == word, (flags, integrity(flags), word)
for c in want["labels"]:
    subject, body, headers = Label(**c["label"]).message("eusn", 0)
    assert json.loads(body) == json.loads(c["body"]), (body, c["body"])
    assert body.decode() == c["body"], (body, c["body"])
    assert (subject, headers) == (c["subject"], c["headers"]), (subject, headers, c)
m = want["sample"]
payload = base64.b64decode(m["payload"])
assert crc(payload) == m["headers"]["Eusn-Crc"]
made = sample_headers(m["subject"], int(m["headers"]["Eusn-Seq"]), m["headers"]["Eusn-Incarnation"], payload, True)
made.pop("Nats-Msg-Id")  # each client has a form of its own
for name in made:
    assert made[name] == m["headers"][name], (name, made, m["headers"])
assert rfc3339(-1) == "1969-12-31T23:59:59.999999999Z"
for wrong in (dict(label="x", who="w"), dict(label="", who="w", seq=1, row=0), dict(label="x", who="w", from_=2, to=2), dict(label="x", who="w", seq=1)):
    try:
        Label(stream="s", **wrong).message("eusn", 0)
    except ValueError:
        continue
    raise AssertionError(wrong)

assert input_subject("plant.A.*", "3") == "plant.A.3"
for wrong in ("plant.*.line.*", "plant.{site}.*", "plant.>", "plant", "*.*"):
    try:
        input_subject(wrong, "3")
    except ValueError:
        continue
    raise AssertionError(wrong)

if "--arrow" in sys.argv:
    import pyarrow as pa

    from eusn_stream.client import decode, encoder

    golden = pa.ipc.open_stream(payload).read_all()
    rows = [list(r) for r in zip(*(golden.column(c).to_pylist() for c in ("c0", "c1")))]
    times = golden.column("ts").cast(pa.int64()).to_pylist()
    again = pa.ipc.open_stream(encoder(["c0", "c1"])(rows, times)).read_all()
    assert again.equals(golden), (again, golden)
    p = want["prediction"]
    got = decode(base64.b64decode(p["payload"]), 7)
    assert [(g.stream, g.cls, g.integrity, g.seq, g.row) for g in got] == [tuple(x) for x in p["rows"]], got
    assert got[0].readout is None, got
    p = want["promoted"]
    assert [g.readout for g in decode(base64.b64decode(p["payload"]), 7)] == [x[0] for x in p["rows"]]
    p = want["later"]
    got = decode(base64.b64decode(p["payload"]), 7)
    assert [[g.set, g.novelty, g.novelty_p, g.change, g.value, g.low, g.high, g.inputs] for g in got] == p["rows"], got
print("ok")
