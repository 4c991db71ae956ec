"""Writes partitions.json: what other programs must compute for a subject.

Nothing here is taken from the Go code: the rule is that of pipeline/doc.go, "The
way of a message", and the hash is FNV-1a of 32 bits as its authors define it.
"""
import json
import pathlib


def fnv1a32(data: bytes) -> int:
    h = 0x811C9DC5
    for b in data:
        h = ((h ^ b) * 0x01000193) & 0xFFFFFFFF
    return h


assert fnv1a32(b"") == 0x811C9DC5 and fnv1a32(b"a") == 0xE40C292C and fnv1a32(b"foobar") == 0xBF9CF968


def case(pattern: str, subject: str) -> dict:
    if " " in pattern:  # several subjects: the key is the whole subject, and so is what is hashed
        at = {str(n): fnv1a32(subject.encode()) % n for n in (1, 3, 8, 16, 64, 4096)}
        return {"pattern": pattern, "subject": subject, "key": subject, "hashed": subject, "partition": at}
    stars, key = [], []
    tokens, levels = pattern.split("."), subject.split(".")
    for i, token in enumerate(tokens):
        if token == ">":
            key += levels[i:]
        elif token == "*" or token.startswith("{"):
            stars.append(levels[i])
            key.append(levels[i])
        else:
            assert token == levels[i]
    hashed = subject if pattern.endswith(".>") else "".join(stars)
    at = {str(n): fnv1a32(hashed.encode()) % n for n in (1, 3, 8, 16, 64, 4096)}
    return {"pattern": pattern, "subject": subject, "key": ".".join(key), "hashed": hashed, "partition": at}


cases = [
    ("sensors.*", "sensors.pump-3"),
    ("sensors.{sensor}", "sensors.pump-3"),
    ("a.b.c.*", "a.b.c.Größe"),
    ("plant.*.line.*.sensor.*", "plant.A.line.3.sensor.7"),
    ("plant.{site}.line.{line}.sensor.{sensor}", "plant.A.line.3.sensor.7"),
    ("plant.*.line.*.sensor.*", "plant.A3.line.7.sensor.x"),
    ("plant.*.line.*.sensor.*", "plant.A.line.37.sensor.x"),
    ("plant.*.temperature", "plant.oven.temperature"),
    ("plant.*.line.*.raw", "plant.Nord-Süd.line.12.raw"),
    ("plant.>", "plant.A"),
    ("plant.>", "plant.A.line.3.sensor.7"),
    ("plant.>", "plant.A.line.3.sensor.70"),
    ("plant.*.line.>", "plant.A.line.3.sensor.7"),
    ("plant.{site}.>", "plant.A.line.3.sensor.7"),
    ("press.*.vibration mill.{line}.>", "press.3.vibration"),
    ("press.*.vibration mill.{line}.>", "mill.A.motor.7"),
    ("press.*.vibration mill.{line}.> hall", "hall"),
]
out = pathlib.Path(__file__).with_name("partitions.json")
out.write_text(json.dumps([case(p, s) for p, s in cases], ensure_ascii=False, indent=1) + "\n")
