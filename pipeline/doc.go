// Package pipeline is the live stage: sensor samples come in on NATS
// JetStream, each stream's reservoir state advances, predictions go out.
//
// It owns the NATS side (embedded server, connections, NATS streams, ordered
// consumers), the bookkeeping of streams and sequences, the batching and the
// commit. It does not know Arrow's bytes (package codec), what a step computes
// (package reservoir), files, flags or the environment.
//
// # The way of a message
//
//	producer -> sensors.<key> -> NATS stream <JOB>-IN, stored as <job>.in.<p>.<key>
//	  receive.go    one ordered consumer per partition p hands messages to p's shard
//	  shard.go      joins waiting messages under a row and a latency budget
//	  ingest.go     checks, decodes, drops repeats
//	  spread.go     gives each stream its samples, cut into runs (sequencer.go)
//	  engine        reservoir.Engine.Advance: one call per batch
//	  emit.go       encodes predictions, publishes dead letters and commits
//	  commit.go     <job>.out.<p>: one message holds predictions and position
//
// A key is the last token of the subject a producer publishes to. The server
// derives the partition from it, p = FNV-1a-32(key) mod P, so P cannot change
// during the life of a job. A stream is the source of sequences: the key
// itself, or, in a message with a stream_id field, each id under that key.
//
// Each shard has three parts: the consumers' callbacks (receivers), one
// goroutine that owns the engine and every state row, and one emitter. Two
// bounded channels join them. Each state row has exactly one owner, so nothing
// between a message and its prediction takes a lock.
//
// # Message headers
//
// Input, all optional:
//
//	Eusn-Seq          uint64 from 1, +1 per message of a key: repeats are dropped, gaps flagged
//	Eusn-Incarnation  changes when a producer starts counting anew; up to 128 bytes
//	Eusn-Crc          CRC-32C of the payload, 8 hex digits: checked
//	Eusn-End          "true" or "1": closes the sequence after the message's last row;
//	                  "false" and "0" do not, anything else is an error
//
// Output, on <job>.out.<p>; body as codec.DecodePredictions reads it:
//
//	Eusn-Kind         "commit"
//	Eusn-Worker       which run of the stage wrote it
//	Eusn-In-Seq       last input (sequence number in <JOB>-IN) fully answered
//	Eusn-Ahead        predictions already published beyond that input; usually 0
//	Eusn-Outs         predictions published on this partition so far, this message included
//	Eusn-In-Created   creation time of <JOB>-IN: the input that the numbers refer to
//
// Dead letters, on <job>.dlq.<p>: the original bytes and headers, and
// Eusn-Error (reason), Eusn-In-Seq, Eusn-In-Subject. Headers that the server
// would act on (Nats-...) are kept as Eusn-In-Nats-...; Eusn-Truncated gives the
// original length of a payload that did not fit. Headers beyond 8 KiB are left
// out and Eusn-Headers-Dropped counts them; all are still in the input.
//
// # Delivery
//
// The last message on <job>.out.<p> decides how far partition p has come. It
// is published only if nobody else published there in between, so a second
// stage on the same job is refused instead of doubling predictions. On a
// restart the states are rebuilt by replaying the input silently up to that
// point; if the input no longer reaches back to its first message, states
// begin empty and predictions of sequences that may lack samples carry
// codec.FlagGap.
package pipeline
