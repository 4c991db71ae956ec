"""Run by TestPythonClient: publishes to a real server what comes on standard input, with
the module's Publisher. Without nats-py and pyarrow it speaks the NATS protocol here, and
sends JSON, which the stage reads as well."""

import asyncio
import json
import sys

from eusn_stream.publisher import Publisher, Refused


class Nats:
    """As much of a NATS client as publishing with an acknowledgement needs."""

    async def connect(self, host, port):
        self.answers, self.number = {}, 0
        self.reader, self.writer = await asyncio.open_connection(host, port)
        await self.reader.readline()
        self.writer.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB _INBOX.py.* 1\r\n')
        self.task = asyncio.create_task(self.read())

    async def read(self):
        while line := (await self.reader.readline()).decode().split():
            if line[0] == "PING":
                self.writer.write(b"PONG\r\n")
            elif line[0] in ("MSG", "HMSG"):
                data = (await self.reader.readexactly(int(line[-1]) + 2))[:-2]
                self.answers.pop(line[1]).set_result((line[0], data))

    async def send(self, subject, data, headers):
        self.number += 1
        reply = f"_INBOX.py.{self.number}"
        answer = self.answers[reply] = asyncio.get_running_loop().create_future()
        head = ("NATS/1.0\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n").encode()
        self.writer.write(f"HPUB {subject} {reply} {len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n")
        kind, text = await asyncio.wait_for(answer, 5)
        ack = {} if kind == "HMSG" else json.loads(text)
        if not ack.get("seq"):
            if ack.get("error", {}).get("code") == 400:
                raise Refused(ack)
            raise OSError(text)


def encode(rows, times):
    names = [f"c{i}" for i in range(len(rows[0]) if rows else 0)]
    return json.dumps({n: [r[i] for r in rows] for i, n in enumerate(names)}).encode()


async def main():
    server = Nats()
    await server.connect("127.0.0.1", int(sys.argv[1]))
    lost = {"next": 3}

    async def send(subject, data, headers):
        await server.send(subject, data, headers)
        lost["next"] -= 1
        if lost["next"] == 0:  # an acknowledgement that does not arrive: the message is sent again
            lost["next"] = 5
            raise asyncio.TimeoutError

    p = Publisher(send, encode, 2, rows=7, latency=0.01, buffer=16)
    series = json.load(sys.stdin)
    longest = max(map(len, series.values()))
    for i in range(0, longest, 3):
        for stream, samples in series.items():
            await p.publish(stream, samples[i : i + 3], end=i + 3 >= longest)
            assert p._held <= 16, p._held
    await p.flush()
    assert p._held == 0
    await p.close()
    try:
        await p.publish("s", [[0, 0]])
    except RuntimeError:
        print("ok")

    async def refuse(subject, data, headers):
        raise Refused("too large")

    p = Publisher(refuse, encode, 2, latency=0.01)
    await p.publish("s", [[0, 0]])
    try:
        await p.flush()
    except Refused:
        print("refused")
    server.task.cancel()


asyncio.run(main())
