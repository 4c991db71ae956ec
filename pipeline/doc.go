// Package pipeline is the live stage. Sensor samples come in on NATS
// JetStream, the reservoir state of each stream advances, and predictions go
// out.
//
// This package is a worker of a job: a worker connects, starts shards, and shares the
// job's partitions with other workers. The packages below do the work:
// internal/pipeline/owner holds a partition from its claim to its release,
// internal/pipeline/shard computes, internal/pipeline/state is the state machine of a
// partition, internal/pipeline/store reads and writes the job's data on the server,
// internal/pipeline/wire defines names and formats. The bytes of messages belong to
// packages codec and internal/formats, and the computation of a step to package
// reservoir. Files, flags and the environment are read outside the stage.
//
// # The way of a message
//
//	producer -> sensors.<key> -> NATS stream <JOB>-IN, stored as <job>.in.<p>.<key>
//	  internal/pipeline/owner/receive.go     one ordered consumer per partition p hands messages to p's shard; of a
//	                                worker with all partitions, one for all of them (internal/pipeline/owner/common.go)
//	  internal/pipeline/shard/shard.go       joins waiting messages until a number of samples or a latency
//	                                is reached; while the batch before is not committed, for up to
//	                                four times the latency
//	  internal/pipeline/shard/ingest.go      hands each message to the state machine
//	  internal/pipeline/state                drops repeated messages, checks and decodes, and cuts the
//	                                samples of each stream into runs (package internal/sequence)
//	  internal/pipeline/shard/assign.go      gives each run a slot of the engine
//	  internal/pipeline/shard/compute.go     reservoir.Engine.Advance: one call per batch
//	  internal/pipeline/shard/finalise.go    updates the digests, takes a snapshot where one is due
//	  internal/pipeline/owner/emit.go        publishes the dead letters, encodes the predictions
//	                                (internal/pipeline/owner/split.go)
//	  internal/pipeline/store/commit.go      <job>.out.<p>: one message holds predictions and position
//
// # Keys and partitions
//
// Config.InputSubject defines the subjects that the job reads, and their keys. Its
// tokens are words and wildcards: "*" or "{name}" for a token, ">" at the end for one
// or more tokens. The key is the text matched by the wildcards, joined by dots. So two
// subjects never have the same key:
//
//	input subject                     published on              key             hashed for the partition
//	sensors.*                         sensors.pump-3            pump-3          pump-3
//	plant.{site}.line.*.sensor.*      plant.A.line.3.sensor.7   A.3.7           A37
//	plant.*.line.>                    plant.A.line.3.sensor.7   A.3.sensor.7    plant.A.line.3.sensor.7
//	plant.>                           plant.A.line.3.sensor.7   A.line.3.sensor.7  plant.A.line.3.sensor.7
//
// The server computes the partition, p = FNV-1a-32(h) mod P. P is equal for the whole
// job; see "Another number of partitions". h is the concatenation of the tokens matched
// by "*"; if the input subject ends in ">", h is the whole published subject.
// internal/pipeline/wire/testdata/partitions.py computes the same in another language.
//
// Names change nothing on the server: plant.{site} and plant.* are the same job. Names
// are for people and readers of predictions (eusn-stream tail). The first token must be
// a word. No other job may use any of a job's subjects.
//
// A job may have several input subjects, separated by blanks: "press.*.vibration
// mill.{line}.>". No message may match two. A NATS stream has one subject transform, so
// all subjects are treated alike: the key is the whole subject, press.3.vibration, and
// the server hashes the whole subject. Such an input takes end events on a separate
// subject, eusn-idle-H.*, where H is the FNV-1a-32 of its subjects, sorted, as 8 hex
// digits.
//
// Keys are UTF-8 without blanks. A token "*" or ">" must not be used: the server stores
// such messages outside all partitions, and the log reports them. A subject that no
// pattern matches belongs to no NATS stream: a producer that waits for the
// acknowledgement gets an error. A key has at most 256 bytes; a message under a longer
// key becomes a dead letter. If the input subject has one wildcard and ends in it, as
// sensors.*, only the server limits the key (max_control_line).
//
// A stream is the source of sequences: the key itself or, in a message with a stream_id
// field, each id under the key.
//
// Each shard has three parts: the callbacks of consumers (receivers), a goroutine that
// owns the engine and every state, and an emitter, joined by two bounded channels. Each
// state belongs to exactly one goroutine, so no lock guards a state.
//
// # Message headers
//
// Input headers are all optional. Their names may be in any case, but a message may
// hold only one spelling of each:
//
//	Eusn-Seq          uint64 from 1, +1 per message of a key: repeats are dropped, early ones wait, gaps are flagged
//	Eusn-Incarnation  changes when a producer restarts its count from 1; up to 128 bytes. Without
//	                  the change its messages are dropped as repeats. If the content of a key's
//	                  last number differs, the log says so and a counter counts it
//	Eusn-Crc          CRC-32C of the payload, 8 hex digits: checked
//	Eusn-End          "true" or "1": closes the sequence after the message's last sample;
//	                  "false" and "0" do not, anything else is an error
//	Eusn-Unreadable   why a gateway could not read the payload, which is as its device has sent
//	                  it: the stage does not try, and makes a dead letter of it
//	Eusn-Last-Ts      time of the stream's last sample, this message included, ns since 1970: a
//	                  restarted producer reads it (producer.Live); the stage does not
//	traceparent       where the message stands in a trace, by the W3C, with tracestate; in no state of
//	                  a message that need not wait (docs/traces.md)
//	Eusn-Kind         "idle": the stage's own end event, see Silence; "promote": the stage's own, see
//	                  Promotion; producers must not use it
//
// Output, on <job>.out.<p>; codec.DecodePredictions reads the body:
//
//	Eusn-Kind           "commit", "claim" or "released"; the last two hold no predictions
//	Eusn-Epoch          rises with every claim of the partition
//	Eusn-Worker         which run of the stage wrote it
//	Eusn-In-Seq         last input (sequence number in <JOB>-IN) whose predictions are all published
//	Eusn-Ahead          predictions already published of inputs after that one; usually 0
//	Eusn-Outs           predictions published on this partition so far, this message included
//	Eusn-In-Created     creation time of <JOB>-IN: the input that the numbers refer to
//	Eusn-Digest         of the partition's whole state after input Eusn-Digest-In-Seq, 32 hex digits
//	Eusn-Digest-In-Seq  at most Eusn-In-Seq; less in the middle of a split commit
//	Eusn-Digest-Version version of the digest, the same as that of snapshots; a worker does not touch
//	                    a partition with another version than its own
//	Eusn-In-Ts          when the server stored input Eusn-Digest-In-Seq, ns since 1970
//	Eusn-Rests-In-Seq   in the middle of a split commit: the last input that the predictions so far depend on
//	Eusn-Rests-In-Ts    when the server stored input Eusn-Rests-In-Seq
//	Eusn-Snap           object in <JOB>-SNAP with the state after input Eusn-Snap-In-Seq
//	Eusn-Snap-In-Seq
//	Eusn-Lost-Before    inputs since Eusn-Snap-In-Seq before which some may have been lost, as "12 40-77 90-"
//	Eusn-In-Empty-To    the partition has no input after Eusn-In-Seq up to this one; absent: not known
//	Eusn-Arithmetic     what computed the states (reservoir.Engine); absent: canonical
//	Eusn-Network        of the model without readouts, and the arithmetic: 32 hex digits of a SHA-256
//	Eusn-Generation     how often the job's number of partitions has changed; absent: never
//	Eusn-Readout        of the first readout of the job, in the same form; if messages are not Arrow, the
//	                    hash covers the input format, too
//	Eusn-Promoted       "3 2 1041 ab12...": the writer knows of promotion 3, the state has taken 2 by input
//	                    1041, which was of that readout ("-": the job's first); absent: there was none
//
// In addition to the record, traceparent and tracestate may name the span that sent the
// predictions. Such headers are no part of the record and are never compared.
//
// One more message, on <job>.out.job, identifies the job's model: Eusn-Kind "job",
// Eusn-Network, Eusn-Readout, Eusn-Arithmetic, and Eusn-Input, the input format, unless
// Arrow (JSON, see internal/formats.Input), and Eusn-Resize, the number of partitions,
// if changed or in change (JSON, see internal/pipeline/wire.Resize), and
// Eusn-Input-Job, the job with the input, if the input is another job's (JSON, see
// internal/pipeline/wire.Source), and Eusn-Promotions, the newest promotions, if any
// (JSON), and Eusn-Shadows, the shadows (JSON, see internal/pipeline/wire.Shadow); the
// body holds no predictions. Eusn-Readout identifies the job's first readout.
//
// Dead letters, on <job>.dlq.<p>, have the original bytes and headers, and four more:
// Eusn-Error (the full reason), Eusn-Reason (one word, the key of Stats.DeadLettersBy),
// Eusn-In-Seq (the input message; 0: from an imported state) and Eusn-In-Subject. A
// resent dead letter carries the dead letter's number in Eusn-Dead-Letter. Afterwards,
// a message of Eusn-Kind "sent-again" marks the dead letter as resent: Eusn-Dead-Letter
// is the number, Eusn-In-Seq the new input message. Headers that the server would act
// on (Nats-...), and headers reserved for dead letters, are kept as Eusn-In-Nats-...
// and Eusn-In-Eusn-...; Eusn-Truncated gives the original length of a payload that did
// not fit. Headers beyond 8 KiB are left out and Eusn-Headers-Dropped counts them; the
// input message still has all headers. A job keeps the newest Config.DeadLetterKeep
// dead letters: the server drops the oldest, a warning counts the dropped dead letters,
// and the input has the originals until their removal. A job created without this limit
// keeps all dead letters, and reports so at the start.
//
// # Delivery
//
// Each input message changes the state of the message's streams exactly once, and each
// prediction is published exactly once. This holds when workers or the server crash,
// when a worker is suspended and continues late, and when partitions move between
// workers.
//
// The last message on <job>.out.<p> is the record of partition p: position and owner.
// Each published message names the expected previous record, and the server refuses the
// message if another message is the last (compare-and-set). A worker
//
//  1. claims p: it republishes the record with the next epoch. From then on the
//     server refuses the previous owner (it is fenced), at any later time;
//  2. checks that the input is the input of the record: it has the same creation
//     time, it is not shorter than the position, and its last answered message was
//     stored at the same time. The worker repeats this check each time the client
//     recreates a consumer, which then continues after the last message: that message
//     must be unchanged. So an input that went back in time (a power failure, a
//     restored backup) is detected even after growth beyond this position;
//  3. restores the snapshot that the record names, replays the input after it up to
//     the position without publishing, and compares the state's digest with the
//     record's. If that snapshot is lost, it starts from an earlier one, or from
//     message 1 if the input still has it. If the digests differ, p stops with a
//     message that names the remedy: nothing is predicted from a state that may be
//     wrong;
//  4. commits predictions, position and digest in one message per batch. If the
//     outcome of a commit is unknown, the worker reads the record from the leader.
//     The record is this worker's (the commit succeeded), the previous record
//     (publish again), or another worker's (this worker is fenced). An output that
//     goes back in time reuses numbers, perhaps for the records of another worker. So
//     no commit relies on an answer that is older than a second, or from an earlier
//     connection: the worker first rereads the record, which must be unchanged;
//  5. copies p's state at a commit, after a number of messages or seconds, and stores
//     the copy while it continues to work; the next commit names it. At most two
//     replaced snapshots are kept for each partition, so that an output that goes
//     back by up to ten minutes still finds a snapshot
//     (internal/pipeline/owner/retire.go). Objects left by killed workers are deleted
//     ten minutes after a claim;
//  6. stores the last state and commits "released" when it stops, or when p is
//     assigned to another worker: the next owner replays nothing and need not wait.
//
// A worker with all of a job's partitions reads the input with a single consumer, and
// passes each message to the shard of the partition
// (internal/pipeline/owner/common.go). A partition with a later beginning or a lag
// reads with a separate consumer until the shard has all messages up to the common
// consumer's position. A partition uses a separate consumer when the worker no longer
// owns all partitions, when the common consumer has a fault, when input may have been
// lost, or when the shard accepts no messages for 100 ms; this consumer begins after
// the last message in the shard. A message delivered by both consumers is a repeat: the
// shard drops the repeat by the number in the input.
//
// A job begins once. After the first worker has written the job's entry, it marks the
// configuration of the job's NATS streams (internal/pipeline/store/begun.go). A server
// may lose messages and keep configurations. So a worker that finds a mark and an
// output without entry and records ends, and so does a worker that has read the entry
// and finds an empty output: no worker begins a partition with a lost position.
//
// A running worker checks once per lease for unchanged input and output, and stops
// otherwise: the consumers would wait indefinitely without an error. A partition stops
// if the partition's last message is gone from the input, or if another message has the
// number. The job's remaining NATS streams are recreated after a deletion; after a
// deletion of the snapshots, every state is stored once more.
//
// A job runs one model. The first worker stores the model in the job's registry
// (package registry, bucket <JOB>-MODELS), and then the model's identity in a message
// on <job>.out.job, accepted by the server only as the first such message. Every record
// repeats the identity, and each worker's name in the member list ends with the
// identity. A worker compares all three before an entry in the list or any claim. If
// the network differs, the worker ends with ErrOtherModel: repeated restarts with the
// wrong model do not disturb other workers. If only the readout differs, the worker
// takes the job's model from the registry, reports the model, and predicts with this
// model; if the registry lacks the model, the worker also ends with ErrOtherModel. So
// with simultaneous first workers, a single worker decides. In a job without the
// identity message (refused by the server, or removed), the records decide. The message
// is part of the output and is deleted with the output: the output constitutes the job.
// Imported states bring their network, and the first worker brings its readout.
//
// The input format (Config.Input: the format, and the position of each value in a
// message) decides which samples a job reads, and a replay must read the same samples.
// So the first worker stores the format with the identity, and a worker with another
// format is refused with ErrOtherModel and the difference. A worker with only auto uses
// the job's format. A job of programs that knew only Arrow keeps Arrow. Verify uses the
// job's format.
//
// Workers of a job find each other in the bucket <JOB>-MEMBERS; entries expire after a
// lease. Each worker computes the same assignment (highest random weight, at most
// ceil(P/n) each) from the same list. The list decides which worker should work on a
// partition; only the claim (step 1) decides which worker may. A partition with its
// owner still in the list is claimed after the release, or after a lease.
//
// A partition's state is: the state rows, counts, flags and last sample of each stream,
// and for how long each channel has had its last value; the numbers, incarnation and
// held messages of each key; the order in which streams sent messages, and the last
// input of each. The whole state is a function of the partition's messages in order,
// for any batches, shards and engines. Its limits (MaxStreams, Reorder, ReorderBytes)
// count streams, messages and bytes, never time. You may change these limits, or the
// policy on missing values, after a release, because nothing is replayed then. After a
// crash such a change makes the digests differ, and the partition stops. If the policy
// on missing values becomes hold, a stream has no last sample to hold yet: until its
// next sample, the mean of the training data replaces a missing value. MaxSlots decides
// only where states are held, and may change at any time.
//
// A message with a too high Eusn-Seq is held for the missing messages. When they come,
// the held messages are used in order, and their sequences carry FlagReordered. When a
// key has more than Reorder held messages, or the partition more than ReorderBytes, the
// stage gives up the lowest missing numbers, and later predictions carry FlagGap. So
// does the first sequence of each stream that appears later under this key: it may have
// begun in a missing message. A prediction with no flag is complete;
// outcome.Flag.Integrity summarizes the flags in one word: unlike-training, gap,
// poison-skipped, held, idle, early or complete (unknown: a flag of a later version). A
// flag of a sequence is on all its later predictions too.
//
// A producer may have several messages in flight. A resent message arrives after them,
// so have at most Reorder messages of a key in flight, or wait for each
// acknowledgement. Of all keys together, have some hundreds in flight: PublishAsync of
// nats.go allows 4,000 by default and, if all of them have waited 200 ms for their
// answers, returns ErrTooManyStalledMsgs and does not send the message. On two busy
// cores, which stored 6,000 to 15,000 messages of 640 bytes a second, four of six runs
// with 4,000 had such refusals, two of six with 512. So use
// WithPublishAsyncMaxPending(512) and WithStallWait of some seconds, and resend a
// refused message under its number before the next message of its key: then nothing is
// lost. A producer that continues with the next number makes a gap.
//
// # Several jobs on one input
//
// A job may read the input of another job (Config.Shared): another model, another team,
// the next version in parallel to the current one. It has no <JOB>-IN: its workers
// create consumers on the other job's input, so the samples are stored once, and
// producers need no change. Keys, partitions and the numbers of messages belong to that
// input. Everything else is the job's own: records, output, states, rows, dead letters,
// workers, and the values read from messages (Config.Input), though messages have one
// format.
//
// A job's entry names the job with the input, the input's creation time, and the
// message with which the job begins (From: the first message, the next message, or the
// first since a time). The first worker writes the entry once, and other workers follow
// the entry. Input before From is treated like input removed unread: the first sequence
// of a key carries FlagGap. The entry also marks the job as a reader of the input: it
// remains while no worker runs, and is deleted with the job's output. A job that reads
// another job's input has none for a third job to read.
//
// The number of partitions of such an input cannot change: each job's states depend on
// it. Resize looks for readers before and after the job's entry announces the change. A
// beginning reader first writes the job's entry, and then checks for a change of the
// number. So at least one job detects the conflict.
//
// A resent dead letter would reach all jobs, so resending is refused (admin.ErrShared).
// The limits of an input, Config.InputMaxAge and InputMaxBytes, ignore its readers: a
// job with a late read has lost input, and flags the loss like any job. admin.Trim
// respects them: it removes the input before the first message needed by any partition
// of these jobs, by the partition's record. That is the message after its snapshot; if
// the snapshot holds everything answered, the message after Eusn-In-Empty-To. So a
// restore finds its input, and the input's beginning is never after a partition's
// position, which would be a loss.
//
// # Another number of partitions
//
// Resize changes a job's number of partitions P to any other, while no worker runs.
// Producers continue: messages are neither refused nor delayed, and messages sent in
// the meantime are answered afterwards. Subjects, partition numbers and the numbers of
// messages stay unchanged; only the assignment of keys to partitions changes. The
// change is a list of steps. The job's entry names the current step, and is written by
// compare-and-set when the step is complete. Each step may be interrupted anywhere, and
// is then repeated; none changes or deletes data that an earlier step needs.
//
//  1. claim: every partition's record is repeated with the next epoch and the next
//     generation. From then on the server refuses commits of earlier workers, and no
//     worker claims a record of another generation than its own, even after a
//     suspension. A starting worker finds the change in the entry and ends. Up to
//     here a change can be abandoned: a separate step restores the generation of all
//     records. For this purpose each record is written once more, so that the server refuses
//     later writes of a parallel or suspended Resize.
//  2. switch: the server gets the new number in the input's subject transform. The
//     server switches between two messages. The cut is the last message before the
//     first whose subject only the new number gives. (A key with the same partition
//     under both numbers does not show the cut, and need not.) The number of the last
//     message before the step is in the entry, so that the cut is found at any later
//     time. From then on the change can only continue; to return, change the number
//     back. For a replicated input, each server assigns a message to a partition when
//     it stores its own copy, and the servers learn the new number at different
//     messages: their copies differ permanently in the partitions of the messages in
//     between. So before the step each server must have all messages up to the number
//     in the entry, and the cut is the last message of any server when all of them
//     knew the new number. In between, the partition of a message is the partition of
//     its key under the old number, regardless of its subject
//     (internal/pipeline/store.Mixed).
//  3. drain: a worker of the new generation claims the old partitions, restores them
//     as usual, answers their input up to the cut, ignores later input, and stores
//     their states.
//  4. store: the state of each key moves unchanged to its new partition: numbers,
//     held messages, streams, rows. Each snapshot read must have the digest in its
//     record. The new snapshots are positioned at the cut, have separate names, and
//     are read back. The sum of the digests of all keys and streams must be the same
//     before and after. Only partitions whose numbers have the same remainder by
//     gcd(P, P') exchange keys, so memory holds only those: for 64 -> 256, one
//     partition at a time.
//  5. publish: each new partition gets a record that names its snapshot, with the cut
//     as its position. Epochs and Eusn-Outs continue from the old partition with the
//     same number. Then the entry has the new number.
//
// A partition's snapshot is positioned at the cut, so no worker reads earlier input
// under a number that meant other keys then. Objects of old partitions, snapshots and
// stored rows, are deleted by the owner of the number ten minutes after its claim, as
// usual; objects of unused numbers, at the end of the change. If input was lost before
// the arrival of a new partition's keys, new keys are flagged as in the old partitions
// (Losses).
//
// The server has no compare-and-set for a subject transform. If a Resize is suspended
// between the check of the entry and the update, and continues after another Resize has
// completed a later change, the transform is set back. Workers notice the difference
// within a lease, and stop with a message; messages stored meanwhile may lie in the
// wrong partitions. Do not run two.
//
// # Another network
//
// Replace makes a job continue with the network and the states of another job that
// reads its input: a new reservoir that has run in parallel takes over the output. The
// procedure is like Resize, with the same generations and the same rules for
// interruptions; the steps have separate names (replace-...).
//
//  1. claim: the generation of all records rises, so that no earlier worker commits;
//  2. drain: the cut is the last input message. Workers of this change make both jobs
//     answer their input up to the cut, each with its own network and on its own
//     output, and store the states. If the other job has passed the cut meanwhile, a
//     new cut is set;
//  3. store: the state of each partition of the other job is stored as a state of
//     this job, next to the previous states, positioned at the cut. The digest of its
//     keys must be the same. Up to here the change can be abandoned;
//  4. publish: each partition gets a record with the new state, the cut and the other
//     network. Epochs and Eusn-Outs continue. Then the entry has the other job's
//     network, readout, classes and input format.
//
// So on the job's output all predictions up to the cut come from the previous network,
// and all later predictions from the other network. Numbers of promotions continue from
// the job's own: the other job's first readout becomes the job's last promotion,
// followed by the other job's promotions. A late event of the previous network finds
// its number already used.
//
// # Samples unlike the training's
//
// A readout always names one of its classes, for any input, and a dead sensor can have
// a higher score than any healthy one. So the samples of each stream are compared with
// the training ranges in the model (package internal/monitor). FlagOutOfRange: a value
// is far outside its channel's range. FlagFlat: a channel has had one value for far
// longer than ever in training. Both are on all later predictions of the sequences with
// these samples. The first such sequence of a stream is logged, and the next only after
// a sequence without; at most one line a second for each shard. A missing value raises
// neither flag, for any replacement: FlagHeld marks it.
//
// FlagLength depends only on the length of the sequence: less than half of the shortest
// in training, or more than twice the longest; an early prediction can only be too long
// (reservoir.Training.Unlike). The stage refuses a model with a policy for windows or
// counts of other lengths than in the readout's training.
//
// FlagRate depends on the times of the samples (monitor.Rate): they came at another
// rate than the model was trained at, by more than Config.RateTolerance, or with a jump
// in time. A state holds, for each open sequence, its first time, its longest interval
// and their number; the tolerance is no part of it. If a sample has no time, the rate
// is unknown, and nothing is flagged.
//
// A model without ranges, lengths and a rate raises none
// of these flags, and its states have no times.
//
// # Silence
//
// A clock may not end a sequence: a replay would end it at another place. So, with
// Config.Idle, the owner of a partition writes an end event into the input when a
// stream has had no message for that long. The event is JSON,
//
//	{"partition":3,"after":1200,"streams":[{"key":"m1","stream":"m1"}],"gaps":["m2"]}
//
// under a key of that partition which no producer uses (eusn-idle-N, with eusn-idle-0
// for each further token), so that the numbers and last messages of producers stay
// unchanged. An event under a key with another first token, or with an "after" that is
// not before its own number, becomes a dead letter. If you do not trust your producers,
// do not allow them to publish under these keys. An event does the same in every
// replay, wherever it is in the log. The event ends the sequence of each named stream
// with the last sample in input message "after" or earlier, and frees the sequence's
// state rows. Under the policies marked and gap the end makes a prediction with
// FlagIdle; under the others it makes none. If a sample is stored before the event, the
// sequence continues; a sample stored later begins a new sequence. Late events, repeats
// and events of former owners find a later sample, or nothing to end. If messages of a
// key are held for a missing message, the stage first gives the missing message up
// ("gaps"), and the key's sequences end after another silence. With Config.Forget,
// "forget":true also removes the stream, and with its last stream the key. The only
// other way to forget a stream is MaxStreams.
//
// A job that reads another job's input also writes end events there, with the job's
// name ("job":"green"). Each job ignores other jobs' events: each job defines how long
// a stream may be silent. Programs without this field refuse the event, which becomes a
// dead letter: upgrade the workers of the input's job before another job with
// Config.Idle reads it. A job that begins in old input finds no own events there:
// silences were not watched.
//
// Silence is measured only while the partition's owner has contact with the server and
// keeps up with the input. The measurement restarts after a claim and after each break
// longer than a lease, because producers may have been cut off too. The stage's account
// must be allowed to publish to the input subject.
//
// # Promotion
//
// A model may have several readouts of the same classes. A job begins with one; Promote
// activates another from then on, without a stop. States and digests do not change: a
// readout only reads a state. The readout of a prediction is a function of the log,
// like everything else.
//
// Promote gives the promotion the next number, writes the promotion into the job's
// entry by compare-and-set, and does nothing else. Each partition's owner, current or
// future, then publishes the promotion into the partition's input:
//
//  1. its next record shows that the owner knows the promotion (Eusn-Promoted). From
//     then on no program without promotions claims the partition;
//  2. when that record is stored, the owner publishes an event under the partition's
//     own key, like an end event, and repeats it until the state has used the
//     promotion. So a promotion interrupted by a kill is completed by the next owner
//     of each remaining partition.
//
// The event is JSON,
//
//	{"partition":3,"number":2,"readout":"ab12...","who":"anna","when":"2026-02-01T08:00:00Z"}
//
// An event with a number that the partition has already used does nothing: repeats,
// late events, events of former owners. Numbers may be missing: an owner publishes only
// the newest. An event that is malformed, or under another key, becomes a dead letter.
// If several jobs read one input, the event names a job ("job"; without this field, the
// job with the input), and all other jobs ignore the event.
//
// A sequence keeps its first readout; windows that overlap keep one each. With "now",
// open sequences get the new readout immediately. Under the policy endless there is no
// next sequence, and every promotion is treated as "now". A partition keeps at most 32
// readouts for its open sequences (sequences of older readouts get the oldest remaining
// readout). Each active readout costs the engine its columns; a readout without
// predictions for ten seconds is unloaded, and reloaded when needed.
//
// From the event on, predictions name their readout (codec, column readout), including
// the job's first readout, and earlier predictions computed with the event's message.
// Their flags for lengths, ranges and rates stay those of the worker's model.
//
// A worker takes a readout from the model, or from the job's registry in the
// background. A worker without the readout does not publish the promotion into the
// input, and reports the missing readout. If the worker takes over a partition that
// needs the readout, this partition waits, with a line in the log, and nothing is
// predicted by another readout. An event contains the creation time of the job's
// output: a new job under an old name ignores the earlier job's promotions. Verify
// needs no readout. Backfill uses the configured readout. The number of partitions
// changes only when all partitions have used the newest promotion. States imported into
// another job lose their promotions.
//
// # Shadows
//
// A shadow is a readout that scores the same sequences as the active readout, and
// predicts nothing (SetShadow). The job's entry lists shadows; the log does not,
// because no state and no prediction depends on shadows. An emitter publishes the
// scores on <job>.shadow.<readout>.<p> before the commit of the same predictions, with
// the commit's future Eusn-Outs, and waits briefly for the server
// (internal/pipeline/store/shadow.go). So each number comes once or more, with the same
// content, or, without storage in time, not at all. Eusn-Out-Created is the creation
// time of the job's output: a new job restarts its numbers from 1.
//
// # Features in predictions
//
// With Worker.Carry, a share of the predictions carries features, for training a
// readout after the removal of the samples. The selection depends only on stream,
// sequence number and row (internal/pipeline/wire/carry.go), so that a replay and
// another worker select the same. The shard reads the features from the engine after
// the call for the prediction, before another sequence gets the slot. The emitter
// publishes the features on <job>.features.<p>, waits for the storage on the server,
// and then commits the predictions: so each committed prediction of the share has
// features there, once or more, under the prediction's number. As with dead letters, a
// refusal by the server blocks the partition. No state, commit or prediction depends on
// features, and workers may use different shares: a share includes all smaller shares.
//
// # When room or input runs out
//
// In a partition with MaxStreams streams a new stream replaces another: of the 64
// streams silent longest, the first between two sequences, otherwise the first. An open
// sequence lost in this way is counted (Abandoned), and keys unknown to the partition
// from then on are flagged FlagGap. So invented names displace each other, and no
// stream in use. If a single message needs more than a sixteenth of MaxStreams in new
// streams, and open sequences would be lost, it becomes a dead letter instead, before
// any change.
//
// An embedded server whose disk was full accepts nothing more in the affected NATS
// stream, even after space is freed, and does not answer publishers: the stage retries
// and commits nothing. Free space and restart: acknowledged messages are kept, the rest
// is recomputed.
//
// A partition without new messages during the expiry of old input keeps the state: the
// snapshot holds the state after the partition's last message.
//
// Input removed (max_age, a purge) before the partition has read the input is lost, and
// the sequences with possible samples there are flagged FlagGap: the open sequences of
// the partition, the next sequence of each stream between two sequences, and the first
// of unknown keys. If producers number their messages, the numbers decide instead,
// except for sequences that silence ends before the next message. The record lists the
// messages before which input may have been lost since the snapshot, so that a replay
// sets the same flags. All partitions share the input's numbers, so a missing message
// cannot be assigned to a partition afterwards. So while all input still exists, a
// worker asks the server about partitions without new messages, and the record stores
// the number up to which no message existed, whenever half of the input lies after the
// stored number. Two cases remain. Flags are set without need if no worker owned the
// partition while the input lost messages after the partition's last message. A loss
// goes unnoticed, unless producers number their messages, if a single message is
// deleted by hand, or if input is purged by hand within a lease while the stage lags.
//
// # Cold streams
//
// The engine of a shard holds MaxSlots state rows: one state each. When more sequences
// are open, the rows of the least recently used streams, a sixteenth of the slots at a
// time, are stored in the NATS stream <JOB>-ROWS, one message each on
// <job>.rows.<p>.<epoch>. Stored rows are read back, many at once, before the engine
// call that needs the rows. Everything else of a stream stays in memory: MaxStreams
// limits it.
//
// The location of a row is not part of the state: the digest uses the hash of a row,
// equal in either location, and each shard decides separately. This is safe because
// rows are immutable, and a snapshot names the stored rows instead of holding them. A
// row is deleted only after a commit has named a snapshot without the row. So a killed
// worker loses nothing: the next worker continues with the names and reads the needed
// rows. Rows stored by killed workers and named by no snapshot are deleted after the
// next claim. If a row is lost or damaged, the partition stops at the read of the row
// (the row's hash is in the snapshot); "state verify" reads all rows. A row must fit in
// one message: max_payload.
//
// # What the server refuses
//
// If the server refuses a write, or is connected but does not answer, the worker gives
// up only the partition of the write. The partition waits, longer each time (1 s to 30
// s), and is reclaimed from its last snapshot, until the cause is gone (backoff.go). If
// the store of rows does not answer, the worker waits 30 s once; then the worker probes
// the store in parallel to the work. Only commits and claims are retried in place,
// because a partition cannot continue without them. A partition stops permanently only
// if state or history may be wrong.
//
// # Files
//
//   - job.go: defines Job, checks configuration and model
//   - worker.go: defines Worker and runs it (Worker.Run)
//   - run.go: opens a run: connections, NATS streams, model, shards
//   - config.go: defines the configuration of a job
//   - connection.go: holds the connections of a run and detects closed connections
//   - domains.go: refuses a job that exists in a linked JetStream domain
//   - ensure.go: decides the number of partitions of a job
//   - identity.go: compares model and readout with the other workers of a job
//   - input.go: compares how a job and a worker read messages
//   - shared.go: finds the input of a job that reads the input of another job
//   - follow.go: takes the readout from the registry of a job that has another readout
//   - manage.go: starts and stops the ownerships of a worker (manager)
//   - members.go: lists the living workers and assigns partitions
//   - backoff.go: delays the next claim after an error
//   - monitor.go: detects deleted NATS streams, lagging replicas and too many consumers
//   - sweep.go: deletes the snapshots and stored states of earlier owners
//   - readouts.go: reads promoted readouts from the registry
//   - shadowed.go: reads shadows from the registry
//   - generation.go: refuses workers while partitions or network change
//   - drain.go: answers the input of a job that is being changed, up to a message
//   - stats.go: publishes counters
//   - status.go: publishes the state of each partition
//   - bridge.go: gives the program's own packages functions that other modules need not see
//   - safeguard.go, safeguard_chaos.go: disable one check for the fault harness (build tag chaos)
package pipeline
