// One stream of a client: what waits, and the one message under way.
import { headers } from "@nats-io/transport-node";
import { crc, encodeSamples } from "./messages.js";

const retryWait = 100; // ms before a refused message is sent again
const answerWait = 5000; // ms for an acknowledgement
const patience = 10000; // ms for a server where nobody has taken a message yet
const wrongLast = [10071, 10164];
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Lane {
  constructor(client, key) {
    Object.assign(this, { client, key, seq: 0, incarnation: client.run, last: null, moved: false, there: null, endThere: false, seen: null, until: null });
    Object.assign(this, { columns: client.channels.map(() => []), times: [], ends: [], taken: 0, stored: 0, busy: false, timer: null });
  }

  // resume continues after the key's last message in the input: { seq, headers }, or null.
  resume(message) {
    this.last = message?.seq ?? 0;
    if (!message) return;
    const seq = Number(message.headers.get("Eusn-Seq")), time = message.headers.get("Eusn-Last-Ts");
    if (!seq || !time) throw new Error(`stream "${this.key}": its last message in the input is not of a client that resumes: publish without resume, or under another key`);
    this.seq = seq;
    this.incarnation = message.headers.get("Eusn-Incarnation");
    this.there = this.until = BigInt(time);
    this.endThere = message.headers.get("Eusn-End") === "true";
  }

  // news is what of an item the input does not have: { from, end, seen }.
  news(times, rows, end) {
    if (!this.client.resume) return { from: 0, end, seen: null };
    let seen = this.seen, from = 0;
    for (const t of times) {
      if (t === null || (seen !== null && t <= seen)) throw new Error(`stream "${this.key}": to resume, each sample needs a time, later than the one before`);
      seen = t;
      if (this.there !== null && t <= this.there) from++;
    }
    if (from === rows && this.there !== null) {
      const at = seen ?? this.there;
      if (at < this.there || (at === this.there && this.endThere)) end = false;
    }
    return { from, end, seen };
  }

  get waiting() { return this.times.length + this.ends.length; }
  get full() { return this.times.length >= this.client.rows || this.ends.length > 0; }

  // schedule sends now, or when the first waiting sample has waited long enough.
  schedule() {
    if (this.busy || this.waiting === 0) return;
    if (this.full || this.client.hurry) {
      clearTimeout(this.timer);
      this.timer = null;
      this.busy = true;
      this.send().catch((err) => this.client.fail(err)).finally(() => { this.busy = false; this.schedule(); });
    } else {
      this.timer ??= setTimeout(() => { this.timer = null; this.client.hurried(this); }, this.client.latency);
    }
  }

  // next takes the samples of the next message from those that wait.
  next() {
    let n = Math.min(this.client.rows, this.times.length), end = false;
    if (this.ends.length > 0 && this.ends[0] <= n) [n, end] = [this.ends.shift(), true];
    this.ends = this.ends.map((at) => at - n);
    const times = this.times.splice(0, n);
    if (n > 0) this.until = times[n - 1];
    return { n, end, data: encodeSamples(this.client.channels, this.columns.map((c) => c.splice(0, n)), times) };
  }

  async send() {
    const { n, end, data } = this.next();
    const subject = this.client.subject.of(this.key);
    this.seq++;
    const h = headers();
    h.set("Eusn-Seq", String(this.seq));
    h.set("Eusn-Incarnation", this.incarnation);
    h.set("Eusn-Crc", crc(data));
    if (end) h.set("Eusn-End", "true");
    if (this.client.resume && this.until !== null) h.set("Eusn-Last-Ts", String(this.until));
    const begin = Date.now();
    for (;;) {
      if (this.client.fault) return;
      try {
        const options = { headers: h, timeout: answerWait, msgID: `${subject}:${this.client.run}:${this.seq}` };
        if (this.client.resume) options.expect = { lastSubjectSequence: this.last };
        if (this.moved) options.expect.lastSubjectSequenceSubject = this.client.storedAs(this.key);
        this.last = (await this.client.js.publish(subject, data, options)).seq;
        this.moved = false;
        break;
      } catch (err) {
        if (wrongLast.includes(err.code) && this.client.resume) {
          if (await this.ours()) break;
        } else if (err.status === 400 || err.code === 400 || err.name === "ClosedConnectionError") {
          throw err;
        } else if (!this.client.reached && Date.now() - begin > patience) {
          throw new Error(`stream "${this.key}": nobody takes messages on ${this.client.subject.text}: does a stage run there?`, { cause: err });
        }
        await pause(retryWait);
      }
    }
    this.stored += n + (end ? 1 : 0);
    this.client.storedOf(this, n, n + (end ? 1 : 0));
  }

  // ours looks why the key's last message is not the expected one: ours is there (its
  // acknowledgement was lost), or limits have removed it, or it is the expected one and lies
  // in another partition than the next (the job's number of partitions has changed: the
  // server then has to look in all), or another producer publishes.
  async ours() {
    let message;
    try {
      message = await this.client.lastOf(this.key);
    } catch {
      return false; // asked again
    }
    this.moved = message?.seq === this.last;
    this.last = message?.seq ?? 0;
    if (!message || message.headers.get("Eusn-Dead-Letter")) return false;
    const seq = Number(message.headers.get("Eusn-Seq"));
    if (message.headers.get("Eusn-Incarnation") !== this.incarnation || !(seq <= this.seq)) throw new Error(`stream "${this.key}": another producer publishes under this key: stop it`);
    return seq === this.seq;
  }
}
