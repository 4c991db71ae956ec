import type { NodeConnectionOptions } from "@nats-io/transport-node";

export interface Options {
  url?: string; // nats://127.0.0.1:4222
  nats?: NodeConnectionOptions; // credentials, TLS
  job?: string; // eusn
  subject?: string; // sensors.*; with several wildcards, such as plant.*.line.* or plant.>, a stream name is what they stand for: A.3; with several subjects (press.*.v mill.>), the whole subject
  channels?: string[]; // of the samples, in order; without them the client only reads
  rows?: number; // most samples in a message: 256
  latency?: number; // ms that a sample waits for others: 100
  buffer?: number; // samples taken and not yet stored, of all streams: 65536
  resume?: boolean; // continue exactly after a restart: each sample needs a time, later than the one before
  stored?: (stream: string, samples: number) => void; // the server has stored that many more
  log?: (message: string) => void; // messages of the output that are no predictions: console.warn
}

export interface PublishOptions {
  times?: (Date | bigint | null)[]; // one per sample; a bigint is in ns since 1970
  end?: boolean; // the sequence ends after the last sample
  signal?: AbortSignal; // ends waiting for room: nothing was taken
}

export type Integrity = "unknown" | "unlike-training" | "gap" | "poison-skipped" | "held" | "idle" | "early" | "complete";

export interface Prediction {
  stream: string;
  class: string;
  probability: number | null;
  score: number;
  scores: number[] | null;
  integrity: Integrity; // look at it first
  flags: number;
  seq: bigint; // where the sequence's last sample was
  row: number;
  time: bigint | null; // ns since 1970
  readout: string | null; // which one answered, where readouts of the job were promoted (docs/models.md)
  set: string[] | null; // the classes that the true one is among, at the model's coverage: one is an answer, none or several are none (docs/sets.md)
  novelty: number | null; // how unlike the training part it is: 1 is usual (docs/novelty.md); null: the model does not say
  noveltyP: number | null; // the share of sequences like the training's that are as unlike
  change: number | null; // of an early prediction: the probability that the class changes until the end (docs/early.md)
  value: number | null; // what a regression predicts; class is then the name of the number, always the same (docs/regression.md)
  low: number | null; // the true number is from low to high, in a share of the model's coverage
  high: number | null;
  inputs: number[] | null; // level, spread and pace of each channel, in deviations of the training's sequences (docs/alarms.md); null: the model does not say
  message: number; // in the job's output: continue with from one higher
  index: number; // its place in the message
}

export interface Label {
  stream: string;
  from?: Date | bigint; // the samples from this time (bigint: ns since 1970)
  to?: Date | bigint; // until before this one
  seq?: bigint | number; // or the sequence of the prediction with this seq
  row?: number; // and row
  label?: string; // what it was
  withdrawn?: boolean; // instead: an earlier label is taken back
  who: string; // who says so
  when?: Date; // now
}

export class Client {
  publish(stream: string, samples: ArrayLike<number>[], options?: PublishOptions): Promise<void>;
  flush(options?: { signal?: AbortSignal }): Promise<void>;
  close(options?: { signal?: AbortSignal }): Promise<void>;
  label(label: Label): Promise<{ repeat: boolean }>; // resolves when it is stored
  predictions(span?: { from?: number; since?: Date }): Promise<AsyncIterable<Prediction>>;
}

export function connect(options?: Options): Promise<Client>;
export function integrity(flags: number): Integrity;
