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
//	  ingest.go     hands each to the state machine and gives its runs their slots
//	    internal/state  checks, decodes, drops repeats, gives each stream its samples, cut
//	                    into runs (package reservoir/sequence)
//	  compute.go    reservoir.Engine.Advance: one call per batch
//	  emit.go       publishes dead letters (deadletter.go) and commits (split.go)
//	  commit.go     <job>.out.<p>: one message holds predictions and position
//
// A key is the last token of the subject a producer publishes to: UTF-8 without
// dots and blanks, and neither "*" nor ">", which the server stores where no
// partition finds them (the log says so). A subject with more tokens is in no
// NATS stream: who waits for the acknowledgement hears that. The server derives
// the partition from the key, p = FNV-1a-32(key) mod P, so P cannot change
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
// Input, all optional; names in any case, one spelling in a message:
//
//	Eusn-Seq          uint64 from 1, +1 per message of a key: repeats are dropped, early ones wait, gaps are flagged
//	Eusn-Incarnation  changes when a producer starts counting anew; up to 128 bytes. Without the
//	                  change its messages are dropped as repeats; where the content of a
//	                  key's last number differs, the log says so and a counter counts it
//	Eusn-Crc          CRC-32C of the payload, 8 hex digits: checked
//	Eusn-End          "true" or "1": closes the sequence after the message's last row;
//	                  "false" and "0" do not, anything else is an error
//	Eusn-Kind         "idle": the stage's own end event, see Silence; nothing for producers
//
// Output, on <job>.out.<p>; body as codec.DecodePredictions reads it:
//
//	Eusn-Kind           "commit", "claim" or "released"; the last two hold no predictions
//	Eusn-Epoch          rises with every claim of the partition
//	Eusn-Worker         which run of the stage wrote it
//	Eusn-In-Seq         last input (sequence number in <JOB>-IN) fully answered
//	Eusn-Ahead          predictions already published beyond that input; usually 0
//	Eusn-Outs           predictions published on this partition so far, this message included
//	Eusn-In-Created     creation time of <JOB>-IN: the input that the numbers refer to
//	Eusn-Digest         of the partition's whole state after input Eusn-Digest-In-Seq, 32 hex digits
//	Eusn-Digest-In-Seq  at most Eusn-In-Seq; less in the middle of a split commit
//	Eusn-Digest-Version version of the digest, that of snapshots; one newer than ours is left to its program
//	Eusn-In-Ts          when the server stored that input, ns since 1970
//	Eusn-Rests-In-Seq   in the middle of a split commit: the last input that predictions so far rest on
//	Eusn-Rests-In-Ts    when the server stored it
//	Eusn-Snap           object in <JOB>-SNAP with the state after input Eusn-Snap-In-Seq
//	Eusn-Snap-In-Seq
//	Eusn-Lost-Before    inputs since Eusn-Snap-In-Seq before which some may have been lost, as "12 40-77 90-"
//	Eusn-In-Empty-To    the partition has no input behind Eusn-In-Seq up to this one; absent: not known
//	Eusn-Arithmetic     what computed the states (reservoir.ArithmeticOf); absent: canonical
//	Eusn-Network        of the model without readouts, and the arithmetic: 32 hex digits of a SHA-256
//	Eusn-Readout        of the readout that answers, likewise
//
// One more message, on <job>.out.job, says which model the job runs: Eusn-Kind
// "job", Eusn-Network, Eusn-Readout, Eusn-Arithmetic; its body holds no
// predictions.
//
// Dead letters, on <job>.dlq.<p>: the original bytes and headers, and
// Eusn-Error (reason), Eusn-Reason (its word, see Reason), Eusn-In-Seq (0: it came
// with an imported state), Eusn-In-Subject. One that is sent again goes with
// Eusn-Dead-Letter, its number, and is marked by a message of Eusn-Kind
// "sent-again" behind it: Eusn-Dead-Letter, and Eusn-In-Seq, what it has become.
// Headers that the server would act on (Nats-...) are kept as Eusn-In-Nats-...;
// Eusn-Truncated gives the original length of a payload that
// did not fit. Headers beyond 8 KiB are left out and Eusn-Headers-Dropped counts
// them; all are still in the input. A job keeps the newest Config.DeadLetterKeep
// dead letters: the server drops the oldest, a warning says how many, and the input
// has the originals for as long as it keeps them. A job made without that bound
// keeps all of them; its start says so.
//
// # Delivery
//
// Each input message changes the state of its streams exactly once, and each
// prediction is published exactly once, through crashes of workers and server,
// workers that wake up late, and partitions that move between workers.
//
// The last message on <job>.out.<p> is partition p's record; it decides how far
// p has come and who owns it. Everything published there expects the record
// before it (compare-and-set by the server). A worker
//
//  1. claims: repeats the record with the next epoch. Whoever owned p before
//     is refused from then on (fenced), however late it wakes up;
//  2. checks that the input is the one the record speaks of: created when it
//     was, not shorter than the position, its last answered message stored when
//     it was. It checks again each time the client makes a consumer anew, which
//     then goes on behind the last message seen: that message must still be the
//     one it was. So an input that went back (a power failure, a backup) is
//     found out even where it has grown beyond that place again;
//  3. restores the snapshot that the record names, replays the input behind it
//     silently up to the position, and compares the state's digest with the
//     record's. Where that snapshot is lost, it begins from an earlier one, or
//     from message 1 of an input that has it. A difference stops p with a
//     message that says what to do: nothing is predicted from a state that may
//     be wrong;
//  4. commits predictions, position and digest in one message per batch. An
//     outcome that is not known is resolved by reading the record from the
//     leader: ours, our predecessor's (publish again), or another's (fenced).
//     An output that goes back gives its numbers a second time, perhaps to
//     another worker's records. So nothing is published on an answer from before
//     the connection broke, or from more than a second ago: the record is read
//     first, and must be the one we know;
//  5. every so many messages or seconds, at a commit, copies p's state and
//     stores it beside the work; the next commit names it. Of replaced
//     snapshots at most two are kept for each partition, so that an output that
//     goes back by up to ten minutes still finds one to begin from (retire.go).
//     What killed workers left behind is deleted ten minutes after a claim;
//  6. on a stop, or when p falls to another worker, stores the last state and
//     commits "released": the next owner replays nothing and need not wait.
//
// While it works, a worker asks once a lease whether input and output are those
// it began with, and stops if not: their consumers would wait in silence. A
// partition whose last message is gone from the input, or is another one there,
// is stopped. The job's other NATS streams are made anew where they were
// deleted, and every state is stored once more where snapshots were.
//
// A job runs one model. Its first worker says which in one message on
// <job>.out.job, which the server takes only if there is none; every record
// repeats it, and each worker's name among the members ends in it. A worker
// compares all three before it enters itself or claims anything, and ends with
// ErrOtherModel where its network or its readout is another one: a worker that
// is started again and again with the wrong model costs the others nothing. A
// job that programs from before this began is taken by the first worker whose
// network its snapshots fit. The entry lives and dies with the output, which
// holds all that makes a job one; imported states bring their network, and the
// first worker its readout.
//
// Workers of one job find each other in the bucket <JOB>-MEMBERS, whose entries
// end with a lease. Each computes the same assignment (highest random weight,
// at most ceil(P/n) each) from the same list. This decides who should work,
// never who may: that is 1. A partition whose owner still lives is claimed
// when it is released, or after a lease.
//
// State is: each stream's rows, counts, flags and last sample, and for how long
// each channel has had its last value; each key's numbers, incarnation and
// waiting messages; the order in which streams were
// heard and the input each was heard in. All of it is a function of the
// partition's messages in order, whatever the batches, shards and engines. What
// bounds it (MaxStreams, Reorder, ReorderBytes) counts streams, messages and
// bytes, never time. Changing these, or the policy on missing values, is safe
// after a release, where nothing is replayed; after a crash the digest finds it
// out. Where the policy on missing values becomes hold, a stream has no last
// sample to hold yet: until its next one, the training data's mean stands for
// what is missing. MaxSlots decides only where state is held, and may change at any
// time.
//
// A message whose Eusn-Seq is too high waits for the missing ones; when they
// come, what waited is used in order and its sequences carry FlagReordered.
// When a key has more than Reorder messages waiting, or the partition more
// than ReorderBytes, the lowest gap is given up: FlagGap. A prediction with no
// flag is complete; codec.Flag.Integrity says it in one word: unlike-training,
// gap, poison-skipped, held, idle, early or complete (unknown: a flag of a later
// version). What a sequence suffered stays with all its later predictions.
//
// A producer may have several messages under way. One that must be sent again
// arrives behind those, so have at most Reorder messages of a key under way, or
// wait for each acknowledgement. Of all keys together, have some hundreds: nats.go's PublishAsync allows 4,000 by default and, where all
// of them have waited 200 ms for their answers, returns
// ErrTooManyStalledMsgs and does not send the message. On two busy cores, which
// stored 6,000 to 15,000 messages of 640 bytes a second, four of six runs with
// 4,000 had such refusals, two of six with 512. So use
// WithPublishAsyncMaxPending(512) and WithStallWait of some seconds, and send
// what was refused again under its number before the next of its key: then
// nothing is lost. A producer that goes on to the next number makes a gap.
//
// # Samples unlike the training's
//
// A readout names one of its classes whatever it is given, and a dead sensor
// with a higher score than any healthy one. So each stream's samples are compared
// with the training ranges in the model (package reservoir/monitor): FlagOutOfRange
// where a value is far outside its channel's range, FlagFlat where a channel
// has one value for far longer than ever in training. Both are on all later
// predictions of the sequences that hold the samples. The first of a stream is
// logged, and the next only after a sequence without; at most a line a second
// and shard. A missing value shows neither, whatever stands in its place:
// FlagHeld says that.
//
// FlagLength depends on the length of the sequence alone: less than half of the
// shortest in training, or more than twice the longest; an early prediction is
// only ever too long (reservoir.Training.Unlike). A model whose policy makes
// windows or counts of other lengths than its head was trained on is not run at
// all.
//
// A model without ranges and lengths, from an earlier version, flags nothing.
//
// # Silence
//
// A clock may not end a sequence: a replay would end it elsewhere. With
// Config.Idle, the owner of a partition therefore writes an end event into the
// input when it has not heard a stream for so long: JSON,
//
//	{"partition":3,"after":1200,"streams":[{"key":"m1","stream":"m1"}],"gaps":["m2"]}
//
// under a key of that partition which no producer uses (eusn-idle-N), so that
// producers' numbers and last messages stay as they are. An event under another
// key, or one that claims to have read beyond itself, is a dead letter; where
// producers are not trusted, let none publish under these keys. Wherever an
// event stands in the log it does the same in every replay: each stream named
// whose last sample came with input message "after" or before has its sequence
// ended, by a prediction with FlagIdle under the policies marked and gap,
// without one under the others, and its rows are free. A sample that is stored
// first wins; one stored later begins a sequence. Late events, repeats and those
// of former owners find a later sample or nothing to end. A key whose messages wait for a
// missing one has its gap given up first ("gaps"), and its sequences end after
// another silence. With Config.Forget, "forget":true also removes the stream,
// and the key with its last one: the only other way to forget is MaxStreams.
//
// Silence counts while the partition's owner hears from the server and keeps
// up; it begins anew after a claim and after each absence longer than a lease,
// for producers may have been cut off too. The stage's account must be allowed
// to publish to the input subject.
//
// # When room or input runs out
//
// A partition full of open sequences (MaxStreams) stops with an error: it
// cannot tell which of its producers is one too many. One message that alone
// asks for more than there is goes to the dead letters instead, before it has
// changed anything.
//
// An embedded server whose disk was full takes nothing more into the NATS
// stream concerned, also after space is freed, and leaves publishers without
// an answer: the stage tries again and commits nothing. Free space and restart;
// what was acknowledged is kept, the rest is computed again.
//
// A partition that is idle while the input ages away keeps its state: its
// snapshot follows its last message.
//
// Input that is removed (max_age, a purge) before its partition has read it is
// lost, and the sequences that may have had samples in it are flagged: FlagGap
// on the open sequences of the partition, on the next of each stream between
// two, and on the first of keys that the partition does not know. Where
// producers number their messages the numbers decide instead, but for sequences
// that silence ends before a next message. The record names the messages before which that was
// so since its snapshot, so that a replay flags again. The input's numbers are
// those of all partitions: whether any of what is missing was the partition's
// cannot be seen afterwards. So while all is still there, a worker asks for
// partitions that hear nothing, and the record says up to where they had
// nothing. What is flagged without need is a partition that nobody worked on
// while the input lost what came since; what is not known of, but by producers'
// numbers, is a single message deleted by hand, and input purged by hand within
// a lease while the stage lags behind.
//
// # Cold streams
//
// A shard's engine holds MaxSlots state rows. When more sequences are open, the
// rows of those used least recently, a sixteenth of the pool at a time, are
// stored in the NATS stream <JOB>-ROWS, one message each on
// <job>.rows.<p>.<epoch>, and read back, many side by side, before the engine
// call that needs them. Nothing else of a stream leaves memory: MaxStreams
// bounds that.
//
// Where a row is, is no state: the digest takes a row's hash in either place,
// and each shard decides for itself. What makes it safe is that rows are
// immutable and a snapshot names those that are stored instead of holding them.
// So a row is deleted only once a commit names a snapshot that does not name
// it; a worker that is killed loses nothing, the next one goes on with the
// names and reads what it needs. What killed workers stored and no snapshot
// names is swept after the next claim. A row that is lost or damaged stops its
// partition when it is read (its hash is in the snapshot); "state verify" reads
// them all. A row must fit one message: max_payload.
//
// # What the server refuses
//
// A write that the server refuses, or does not answer while it is there, gives
// up the partition that needs it and no other: it waits, longer each time (1 s
// to 30 s), and is claimed again from its last snapshot until the cause is gone
// (backoff.go). A store of rows that does not answer is waited for 30 s once;
// then it is asked beside the work. Commits and claims alone are tried in
// place, for nothing of a partition can go on without them. Only what makes a
// state or its history doubtful stops a partition for good.
package pipeline
