// Publish samples to a stage and read its predictions. The same as the Go package
// client, whose documentation has the reasons.
import { DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect as dial, headers, nuid } from "@nats-io/transport-node";
import { createHash } from "node:crypto";
import { Lane } from "./lane.js";
import { decodePredictions, encodeLabel } from "./messages.js";
import { Subject } from "./subject.js";

export { integrity } from "./messages.js";

// connect connects to a server; see index.d.ts for the options.
export async function connect(options = {}) {
  const nc = await dial({ servers: options.url ?? "nats://127.0.0.1:4222", name: "eusn-stream client", maxReconnectAttempts: -1, ...options.nats });
  return new Client(nc, options);
}

export class Client {
  #nc; #lanes = new Map(); #held = 0; #waiters = []; #closing = false; #flushes = 0; #log; #stored;

  constructor(nc, { job = "eusn", subject = "sensors.*", channels = [], rows = 256, latency = 100, buffer = 65536, resume = false, stored, log = console.warn }) {
    if (!(rows >= 1) || !(buffer >= rows)) throw new Error(`rows ${rows}, buffer ${buffer}: want 1 or more, and room for a message`);
    this.#nc = nc;
    this.#log = log;
    this.#stored = stored;
    Object.assign(this, { js: jetstream(nc, { timeout: 15000 }), job, subject: new Subject(subject), channels, rows, latency, resume, run: nuid.next(), fault: null, reached: false });
    this.buffer = buffer;
  }

  // publish takes samples, an array of one number per channel for each, all or none. It
  // resolves when they are taken, and waits while the buffer is full.
  async publish(stream, samples, { times = [], end = false, signal } = {}) {
    if (this.channels.length === 0) throw new Error("this client only reads: give channels to publish");
    const wrong = this.subject.wrongKey(stream);
    if (wrong) throw new Error(`stream name "${stream}": ${wrong}`);
    if (samples.some((s) => s.length !== this.channels.length) || (times.length > 0 && times.length !== samples.length))
      throw new Error(`stream "${stream}": want ${this.channels.length} values a sample, and a time for each or none`);
    const at = samples.map((_, i) => nanoseconds(times[i]));
    const lane = await this.#laneOf(stream);
    for (;;) {
      signal?.throwIfAborted();
      if (this.fault) throw this.fault;
      if (this.#closing) throw new Error("the client is closed");
      const { from, end: ends, seen } = lane.news(at, samples.length, end);
      const count = samples.length - from + (ends ? 1 : 0);
      if (count > this.buffer) throw new Error(`stream "${stream}": ${count} samples at once, and room for ${this.buffer}`);
      if (this.#held + count <= this.buffer) {
        lane.seen = seen;
        for (let i = from; i < samples.length; i++) {
          samples[i].forEach((v, c) => lane.columns[c].push(v));
          lane.times.push(at[i]);
        }
        if (ends) lane.ends.push(lane.times.length);
        lane.taken += count;
        this.#held += count;
        lane.schedule();
        return;
      }
      await this.#change(signal);
    }
  }

  // flush resolves when all that was taken before is stored.
  async flush({ signal } = {}) {
    const want = [...this.#lanes.values()].map((lane) => [lane, lane.taken]);
    this.#flushes++;
    try {
      for (;;) {
        if (want.every(([lane, taken]) => lane.stored >= taken)) return;
        if (this.fault) throw this.fault;
        signal?.throwIfAborted();
        for (const [lane] of want) lane.schedule();
        await this.#change(signal);
      }
    } finally {
      this.#flushes--;
    }
  }

  // close flushes, and ends the connection.
  async close({ signal } = {}) {
    this.#closing = true;
    try {
      await this.flush({ signal });
    } finally {
      this.fail(new Error("the client is closed"));
      await this.#nc.close();
    }
  }

  // predictions resolves when the reader is there, to an endless iterable of what is
  // stored from then on, or from a message (from) or a time (since) on.
  async predictions({ from, since } = {}) {
    const options = { deliver_policy: DeliverPolicy.New };
    if (from) Object.assign(options, { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: from });
    else if (since) Object.assign(options, { deliver_policy: DeliverPolicy.StartTime, opt_start_time: since.toISOString() });
    const consumer = await this.js.consumers.get(`${this.job.toUpperCase()}-OUT`, options);
    return this.#decoded(await consumer.consume());
  }

  // label resolves when a label is stored: what the samples of a stream were from a time
  // until before another one, or the sequence of a prediction (seq and row). The same
  // label again, with the same when, is stored once.
  async label(label) {
    const body = encodeLabel(label);
    const h = headers();
    h.set("Eusn-Kind", "label");
    const msgID = createHash("sha256").update(body).digest("hex").slice(0, 32);
    const subject = `${this.job}.labels.${label.stream.replace(/[ \t\r\n.*>\0]/g, "_")}`;
    for (let attempt = 1; ; attempt++) {
      try {
        const ack = await this.js.publish(subject, body, { headers: h, msgID, timeout: 5000 });
        return { repeat: ack.duplicate };
      } catch (err) {
        if (err.name === "NoRespondersError" || err.message.includes("no responders")) throw new Error(`job "${this.job}" has no NATS stream for labels: eusn-stream labels list, with an operator's login, makes it`, { cause: err });
        if (err.name !== "TimeoutError" || attempt === 3) throw err;
      }
    }
  }

  async *#decoded(messages) {
    for await (const m of messages) {
      if (m.headers?.get("Eusn-Kind") === "job") continue;
      let all;
      try {
        all = decodePredictions(m.data);
      } catch (err) {
        this.#log(`message ${m.seq} on ${m.subject} is left out: ${err.message}`);
        continue;
      }
      for (const [index, p] of all.entries()) yield { ...p, message: m.seq, index };
    }
  }

  async #laneOf(stream) {
    let lane = this.#lanes.get(stream);
    if (!lane) {
      lane = new Lane(this, stream);
      lane.ready = this.resume ? this.lastOf(stream).then((m) => lane.resume(m)) : Promise.resolve();
      this.#lanes.set(stream, lane);
    }
    try {
      await lane.ready;
    } catch (err) {
      this.#lanes.delete(stream);
      throw err;
    }
    return lane;
  }

  // lastOf is a key's last message in the input, null where there is none.
  async lastOf(key) {
    this.jsm ??= await jetstreamManager(this.#nc, { timeout: 15000 });
    const m = await this.jsm.streams.getMessage(`${this.job.toUpperCase()}-IN`, { last_by_subj: this.storedAs(key) });
    return m && { seq: m.seq, headers: m.header };
  }

  // storedAs is under which subjects a key's messages are stored, in all partitions.
  storedAs(key) { return `${this.job}.in.*.${key}`; }

  get hurry() { return this.#flushes > 0 || this.#closing; }

  hurried(lane) {
    this.#flushes++; // its samples have waited long enough
    lane.schedule();
    this.#flushes--;
  }

  storedOf(lane, samples, count) {
    this.reached = true;
    this.#held -= count;
    if (samples > 0) this.#stored?.(lane.key, samples);
    this.#wake();
  }

  // fail ends all.
  fail(err) {
    this.fault ??= err;
    this.#wake();
  }

  #wake() {
    for (const wake of this.#waiters.splice(0)) wake();
  }

  #change(signal) {
    return new Promise((resolve) => {
      this.#waiters.push(resolve);
      signal?.addEventListener("abort", resolve, { once: true });
    });
  }
}

// nanoseconds of a Date or a bigint; null where there is no time.
function nanoseconds(t) {
  if (t === undefined || t === null) return null;
  return typeof t === "bigint" ? t : BigInt(t.getTime()) * 1000000n;
}
