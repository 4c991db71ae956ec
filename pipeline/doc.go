// Package pipeline is the live stage. Sensor samples come in on NATS
// JetStream, the reservoir state of each stream advances, and predictions go
// out.
//
// This package is a worker of a job: it connects, starts shards, and shares the
// job's partitions with the other workers. The packages below it do the work:
// internal/pipeline/owner holds a partition from its claim to its release, internal/pipeline/shard
// computes, internal/pipeline/state is the state machine of a partition, internal/pipeline/store
// reads and writes what the job has on the server, internal/pipeline/wire has names and
// formats. The bytes of messages belong to packages codec and internal/formats, and what a step
// computes to package reservoir. Files, flags and the environment are read
// outside the stage.
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
// Config.InputSubject says which subjects the job reads, and how the key is made
// of them. Its tokens are words and wildcards: "*" or "{name}" for one token, ">"
// at the end for one or more. The key is what the wildcards stand for, joined by
// dots. So two subjects never have the same key:
//
//	input subject                     published on              key             hashed for the partition
//	sensors.*                         sensors.pump-3            pump-3          pump-3
//	plant.{site}.line.*.sensor.*      plant.A.line.3.sensor.7   A.3.7           A37
//	plant.*.line.>                    plant.A.line.3.sensor.7   A.3.sensor.7    plant.A.line.3.sensor.7
//	plant.>                           plant.A.line.3.sensor.7   A.line.3.sensor.7  plant.A.line.3.sensor.7
//
// The server computes the partition, p = FNV-1a-32(h) mod P. P is the same for
// all of a job; see "Another number of partitions". h is what the "*" stand for,
// one after the other with nothing between; where the input subject ends in ">",
// it is the whole subject, as it was published.
// internal/pipeline/wire/testdata/partitions.py computes the same in another
// language.
//
// Names change nothing on the server: plant.{site} and plant.* are the same job.
// They are for people and readers of predictions (eusn-stream tail). The first
// token must be a word. No other job may take any of a job's subjects.
//
// A job may have several input subjects, with blanks between: "press.*.vibration
// mill.{line}.>". No message may fit two. A NATS stream has one subject transform,
// so all are treated alike: the key is the whole subject, press.3.vibration, and
// that is what is hashed. Such an input takes end events on a subject of its own,
// eusn-idle-H.*, where H is the FNV-1a-32 of its subjects, sorted, as 8 hex digits.
//
// Keys are UTF-8 without blanks. A token "*" or ">" must not be used: the server
// stores such messages where no partition finds them, and the log says so. A
// subject that does not fit belongs to no NATS stream: a producer that waits for
// the acknowledgement gets an error. A key has at most 256 bytes; a message under
// a longer one becomes a dead letter. Where the input subject has one wildcard
// and ends in it, as sensors.*, only the server limits the key (max_control_line).
//
// A stream is the source of sequences: the key itself or, in a message with a
// stream_id field, each id under that key.
//
// Each shard has three parts: the callbacks of its consumers (receivers),
// one goroutine that owns the engine and every state, and one emitter.
// Two bounded channels join them. Each state belongs to exactly one goroutine,
// so no lock guards it.
//
// # Message headers
//
// Input headers are all optional. Their names may be in any case, but a
// message may hold only one spelling of each:
//
//	Eusn-Seq          uint64 from 1, +1 per message of a key: repeats are dropped, early ones wait, gaps are flagged
//	Eusn-Incarnation  changes when a producer starts again to count from 1; up to 128 bytes. Without
//	                  the change its messages are dropped as repeats. If the content of a key's
//	                  last number differs, the log says so and a counter counts it
//	Eusn-Crc          CRC-32C of the payload, 8 hex digits: checked
//	Eusn-End          "true" or "1": closes the sequence after the message's last sample;
//	                  "false" and "0" do not, anything else is an error
//	Eusn-Unreadable   why a gateway could not read the payload, which is as its device has sent
//	                  it: the stage does not try, and makes a dead letter of it
//	Eusn-Last-Ts      time of the stream's last sample, this message included, ns since 1970: a
//	                  producer that starts again reads it (producer.Live); the stage does not
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
//	Eusn-Readout        of the readout that the job began with, likewise; where messages are not read as
//	                    Arrow, of that, too
//	Eusn-Promoted       "3 2 1041 ab12...": whoever wrote it knows of promotion 3, the state has taken 2 by input
//	                    1041, which was of that readout ("-": the job's first); absent: there was none
//
// Besides the record, traceparent and tracestate may say which span sent the
// predictions. They are no part of the record: nobody compares them.
//
// One more message, on <job>.out.job, says which model the job runs:
// Eusn-Kind "job", Eusn-Network, Eusn-Readout, Eusn-Arithmetic, and
// Eusn-Input, how the job reads its messages, if not as Arrow (JSON, see
// internal/formats.Input), and Eusn-Resize, its number of partitions, if that has
// changed or is changing (JSON, see internal/pipeline/wire.Resize), and Eusn-Input-Job, whose
// input it reads, if that is another job's (JSON, see internal/pipeline/wire.Source), and
// Eusn-Promotions, its newest promotions, if there were any (JSON), and Eusn-Shadows,
// its shadows (JSON, see internal/pipeline/wire.Shadow); its body holds
// no predictions. Eusn-Readout is of the readout that the job began with.
//
// Dead letters, on <job>.dlq.<p>, have the original bytes and headers, and
// four more: Eusn-Error (the full reason), Eusn-Reason (one word, the key of
// Stats.DeadLettersBy), Eusn-In-Seq (the input message; 0: it came with an
// imported state) and Eusn-In-Subject. A dead letter that is sent again carries its
// own number in Eusn-Dead-Letter. After that, a message of Eusn-Kind
// "sent-again" marks it as sent: Eusn-Dead-Letter is its number, Eusn-In-Seq
// is the input message that it has become. Headers that the server would act
// on (Nats-...), and those that say something of a dead letter itself, are kept
// as Eusn-In-Nats-... and Eusn-In-Eusn-...; Eusn-Truncated gives the original
// length of a payload that did not fit. Headers beyond 8 KiB are left out and
// Eusn-Headers-Dropped counts them; the input message still has them all. A job keeps the newest Config.DeadLetterKeep dead letters: the
// server drops the oldest, a warning says how many, and the input has the
// originals for as long as it keeps them. A job that was created without
// that limit keeps all of them; its start says so.
//
// # Delivery
//
// Each input message changes the state of its streams exactly once, and each
// prediction is published exactly once. This holds when workers or the
// server crash, when a worker is suspended and continues late, and when
// partitions move between workers.
//
// The last message on <job>.out.<p> is the record of partition p: it says
// how far p has come and who owns it. Each message that is published there
// names the record that it expects before it, and the server refuses it if
// another message is the last one (compare-and-set). A worker
//
//  1. claims p: it publishes the record again with the next epoch. From then on
//     the server refuses the previous owner (it is fenced), however late that
//     one continues;
//  2. checks that the input is the one that the record describes: it has the
//     same creation time, it is not shorter than the position, and its last
//     answered message was stored at the same time. The worker repeats this
//     check each time the client creates a consumer again, which then continues
//     after the last message seen: that message must still be the same. So an
//     input that went back in time (a power failure, a restored backup) is
//     detected even if it has since grown beyond that place;
//  3. restores the snapshot that the record names, replays the input after it up
//     to the position without publishing, and compares the state's digest with
//     the record's. If that snapshot is lost, it starts from an earlier one, or
//     from message 1 if the input still has it. If the digests differ, p stops
//     with a message that says what to do: nothing is predicted from a state
//     that may be wrong;
//  4. commits predictions, position and digest in one message per batch. If the
//     outcome of a commit is not known, the worker reads the record from the
//     leader. It is ours (the commit succeeded), our predecessor's (publish
//     again), or another worker's (we are fenced). An output that goes back in
//     time gives the same numbers a second time, perhaps to the records of
//     another worker. So nothing is published on the basis of an answer that is
//     older than a second, or from before the connection broke: the worker first
//     reads the record, which must be the one it knows;
//  5. copies p's state at a commit, after a number of messages or seconds, and
//     stores the copy while it continues to work; the next commit names it. At
//     most two replaced snapshots are kept for each partition, so that an output
//     that goes back by up to ten minutes still finds one to start from
//     (internal/pipeline/owner/retire.go). What killed workers left in the store is deleted ten minutes
//     after a claim;
//  6. stores the last state and commits "released" when it stops, or when p is
//     assigned to another worker: the next owner replays nothing and need not
//     wait.
//
// A worker that has all of a job's partitions reads the input with one consumer, and
// hands each message to its partition's shard (internal/pipeline/owner/common.go). A
// partition that begins later, or lies behind, reads by its own consumer until its
// shard has all its messages up to where the common one is. It has its own again
// when the worker has no longer all partitions, when the common consumer has
// a fault, when input may have been lost, or when its shard takes no messages for
// 100 ms; it begins behind the last message that the shard has got. What both bring
// is a repeat, which the shard drops by its number in the input.
//
// A job begins once. After the first worker has written the job's entry, it marks
// the configuration of the job's NATS streams (internal/pipeline/store/begun.go). A server may
// lose messages and keep configurations. So a worker that finds a mark and an output
// without entry and records ends, and so does one that has read the entry and finds
// an empty output: nobody begins a partition whose position is lost.
//
// While it works, a worker asks once per lease whether input and output are
// the ones it started with, and stops if not: otherwise their consumers
// would wait for ever without an error. A partition stops if its last
// message is gone from the input, or if another message has its number. The
// job's other NATS streams are created again if they were deleted; if the
// snapshots were deleted, every state is stored once more.
//
// A job runs one model. Its first worker stores the model in the job's registry
// (package registry, bucket <JOB>-MODELS), and then its identity in one message
// on <job>.out.job, which the server takes only if there is none. Every record
// repeats the identity, and each worker's name in the member list ends with it. A
// worker compares all three before it adds itself to the list or claims anything.
// If its network is another one, it ends with ErrOtherModel: a worker that is
// started again and again with the wrong model does not disturb the others. If
// only its readout is another one, it takes the job's model from the registry, says
// so, and predicts with that; where the registry does not have it, the worker ends
// with ErrOtherModel, too. So of workers that begin a job at once, one decides.
// In a job without that message, because the server refused it or somebody removed
// it, the records decide. The message is part of the output
// and is deleted with it, because the output is what makes a job one job. Imported
// states bring their network, and the first worker brings its readout.
//
// How messages are read (Config.Input: the format, and where in a message each
// value is) decides what samples a job has seen, and a replay must see the same
// ones. So the first worker stores it with the identity, and a worker with
// another one is refused with ErrOtherModel and what differs. One whose Input is
// auto and nothing else takes the job's. A job of programs that knew Arrow alone
// stays with it. Verify reads as the job does.
//
// Workers of one job find each other in the bucket <JOB>-MEMBERS, whose
// entries expire after a lease. Each worker computes the same assignment
// (highest random weight, at most ceil(P/n) each) from the same list. The
// list decides who should work on a partition. Who may is decided only by
// the claim (step 1). A partition whose owner is still in the list is
// claimed when it is released, or after a lease.
//
// A partition's state is: the state rows, counts, flags and last sample of
// each stream, and for how long each channel has had its last value; the
// numbers, incarnation and waiting messages of each key; the order in which
// streams sent messages, and the last input of each. All of it is a function
// of the partition's messages in order, whatever the batches, shards and
// engines. Its limits (MaxStreams, Reorder, ReorderBytes) count streams,
// messages and bytes, never time. You may change these limits, or the policy
// on missing values, after a release, because nothing is replayed then.
// After a crash such a change makes the digests differ, and the partition
// stops. If the policy on missing values becomes hold, a stream has no last
// sample to hold yet: until its next sample, the mean of the training data
// takes the place of a missing value. MaxSlots decides only where states are
// held, and may change at any time.
//
// A message whose Eusn-Seq is too high waits for the missing ones. When they
// come, the waiting messages are used in order, and their sequences carry
// FlagReordered. When a key has more than Reorder messages waiting, or the
// partition more than ReorderBytes, the stage stops waiting for the lowest
// missing numbers, and what follows carries FlagGap. A prediction with no
// flag is complete; outcome.Flag.Integrity says it in one word:
// unlike-training, gap, poison-skipped, held, idle, early or complete
// (unknown: a flag of a later version). A flag of a sequence is on all its
// later predictions too.
//
// A producer may have several messages in flight. One that must be sent
// again arrives after those, so have at most Reorder messages of a key in
// flight, or wait for each acknowledgement. Of all keys together, have some
// hundreds in flight: PublishAsync of nats.go allows 4,000 by default and,
// if all of them have waited 200 ms for their answers, returns
// ErrTooManyStalledMsgs and does not send the message. On two busy cores,
// which stored 6,000 to 15,000 messages of 640 bytes a second, four of six
// runs with 4,000 had such refusals, two of six with 512. So use
// WithPublishAsyncMaxPending(512) and WithStallWait of some seconds, and
// send a refused message again under its number before the next message of
// its key: then nothing is lost. A producer that continues with the next
// number makes a gap.
//
// # Several jobs on one input
//
// A job may read the input of another one (Config.Shared): another model, another
// team, the next version beside the one that works. It has no <JOB>-IN: its workers
// make consumers on that of the other job, so the samples are stored once, and
// producers know nothing of it. Keys, partitions and the numbers of messages are
// that input's. All else is the job's own: records, output, states, rows, dead
// letters, workers, and how it reads messages (Config.Input), though these have one
// format.
//
// A job's entry says whose input it reads, when that was created, and with which
// message the job begins (From: the first one, the next one, or the first since a
// time). It is written once, by the first worker, and the others follow it. What lies
// before From is to the job like input that was removed before it could be read: the
// first sequence of a key carries FlagGap. The entry is also what says who reads an
// input: it stands there while none of the job's workers runs, and goes with the
// job's output. A job that reads another one's input has none that a third could
// read.
//
// The number of partitions of such an input cannot change: each job has its states
// by it. Resize looks for readers before the job's entry says that the number
// changes, and after that. A job that begins to read writes its entry first, and then
// looks whether the number changes. So one of the two sees the other.
//
// A message that is sent again from the dead letters would reach all jobs, so it is
// refused (admin.ErrShared). What limits an input, Config.InputMaxAge and
// InputMaxBytes, asks no job: one that reads too late has lost input, and flags it,
// as any job would. admin.Trim asks: it removes what lies before the first message
// that any partition of any of these jobs needs by its record. That is the message
// behind its snapshot; where the snapshot holds all that was answered, the one behind
// Eusn-In-Empty-To. So a restore finds its input, and the input's beginning is never
// behind what a partition knows, which would be a loss.
//
// # Another number of partitions
//
// Resize changes a job's number of partitions P to any other, while no
// worker runs. Producers continue: nothing of theirs is refused or held up, and what
// they send in the meantime is answered afterwards. Subjects, partition numbers
// and the numbers of messages stay as they are; what changes is which partition
// a key belongs to. The change is a list of steps. The job's entry names the one
// under way, and is written by compare-and-set when it is complete. Each step may
// be interrupted anywhere, and is then repeated; none changes or deletes what an
// earlier one needs.
//
//  1. claim: every partition's record is repeated with the next epoch and the
//     next generation. From then on the server refuses what a worker of before
//     commits, and no worker claims a record of another generation than its own:
//     also one that was asleep. A worker that starts finds the change in the
//     entry and ends. So far a change can be abandoned: that is a step of its own,
//     which gives all records their generation back. Each record is written once
//     more for it, so that the server refuses what a Resize that runs beside it,
//     or was asleep, has not yet written.
//  2. switch: the server gets the new number in the input's subject transform.
//     It changes that between two messages. The cut is the last message that lies
//     before the first one whose subject only the new number gives. (A key that
//     both numbers put into the same partition does not tell, and need not.) The
//     number of the last message before the step is in the entry, so that the cut
//     is found however late. From then on the change can only continue; to return,
//     change the number back.
//     Of an input with several copies each server gives a message its partition
//     when it stores its own copy, and the servers hear of the new number at
//     different messages: their copies differ in the partitions of the messages in
//     between, for ever. So before the step each server must have all messages up to
//     the one in the entry, and the cut is the last message that any server had when
//     all of them knew the new number. In between, the partition of a message is
//     that of its key by the old number, whatever its subject says
//     (internal/pipeline/store.Mixed).
//  3. drain: a worker of the new generation claims the old partitions, restores
//     them as always, answers their input up to the cut, ignores what is behind it,
//     and stores their states.
//  4. store: the state of each key goes to its new partition, as it is: numbers,
//     waiting messages, streams, rows. Each snapshot that is read must have the
//     digest in its record. The new snapshots stand after the cut, under names of
//     their own, and are read back. The sum of the digests of all keys and streams
//     must be the same before and after. Only partitions whose numbers have the
//     same remainder by gcd(P, P') exchange keys, so memory holds those alone: of
//     64 -> 256, one partition at a time.
//  5. publish: each new partition gets a record that names its snapshot, with
//     the cut as its position. Epochs and Eusn-Outs continue those of the partition
//     that had the number before. Then the entry has the new number.
//
// A partition's snapshot stands after the cut, so nobody reads what lies before
// it under a number that meant other keys then. What old partitions leave behind,
// snapshots and stored rows, is deleted by the owner of the number ten minutes
// after its claim, as always; that of numbers that are not used any more, at the
// end of the change.
// If input was lost before a new partition's keys came to it, new keys of it are
// flagged as in the partitions that they came from (Losses).
//
// The server has no compare-and-set for a subject transform. A Resize that is
// suspended in the moment between its look at the entry and its update, and
// continues after another one has completed a later change, sets the transform
// back. Workers notice within a lease that it is not the one they started with,
// and stop with a message; what was stored meanwhile may lie in partitions that
// are not its keys'. Do not run two.
//
// # Another network
//
// Replace lets a job continue with the network and the states of another one that
// reads its input: so a new reservoir that has run beside the old one takes over its
// output. The way is that of another number of partitions, with the same generations
// and the same rules for what is interrupted; the steps have names of their own
// (replace-...).
//
//  1. claim: the generation of all records rises, so that no worker of before commits;
//  2. drain: the cut is the last input message that there is. Workers of this change
//     let both jobs answer their input up to it, each with its own network and on its
//     own output, and store the states. If the other job has gone on meanwhile, there
//     is another cut;
//  3. store: the state of each partition of the other job is stored as one of this
//     job, next to the states of before, and stands after the cut. The digest of its
//     keys must be the same. So far the change can be abandoned;
//  4. publish: each partition gets a record that names that state, the cut and the
//     other network. Epochs and Eusn-Outs continue. Then the entry has the other job's
//     network, readout, classes and way of reading messages.
//
// So on the job's output all predictions up to the cut are of the network of before, and
// all others of the other one. Numbers of promotions continue from the job's own: the
// other job's first readout stands for the job's last promotion, its promotions follow.
// An event of before that comes late finds its number behind.
//
// # Samples unlike the training's
//
// A readout always names one of its classes, whatever its input is, and a
// dead sensor can have a higher score than any healthy one. So the samples
// of each stream are compared with the training ranges in the model (package
// internal/monitor). FlagOutOfRange: a value is far outside its channel's
// range. FlagFlat: a channel has had one value for far longer than ever in
// training. Both are on all later predictions of the sequences that hold the
// samples. The first such sequence of a stream is logged, and the next one
// only after a sequence without; at most one line a second for each shard. A
// missing value raises neither flag, whatever value takes its place:
// FlagHeld marks it.
//
// FlagLength depends on the length of the sequence alone: less than half of
// the shortest in training, or more than twice the longest; an early
// prediction can only be too long (reservoir.Training.Unlike). The stage
// refuses a model whose policy makes windows or counts of other lengths than
// its readout was trained on.
//
// FlagRate depends on the times of the samples (monitor.Rate): they came at
// another rate than the model was trained at, by more than Config.RateTolerance,
// or with a jump in time. A state holds, for each open sequence, its first time,
// its longest interval and their number; the tolerance is no part of it. Where a
// sample has no time, nothing is known, and nothing flagged.
//
// A model without ranges, lengths and a rate raises none
// of these flags, and its states have no times.
//
// # Silence
//
// A clock may not end a sequence: a replay would end it at another place.
// So, with Config.Idle, the owner of a partition writes an end event into
// the input when it has had no message of a stream for that long. The event
// is JSON,
//
//	{"partition":3,"after":1200,"streams":[{"key":"m1","stream":"m1"}],"gaps":["m2"]}
//
// under a key of that partition which no producer uses (eusn-idle-N, with
// eusn-idle-0 for each further token), so that the numbers and last messages of
// producers stay as they are. An event under a key that has a token of another
// beginning, or one whose "after" is not before its own number, becomes a dead
// letter. If you do not trust your producers, do not allow them to publish under
// these keys. An event does the same in every replay,
// wherever it is in the log. It ends the sequence of each stream named whose
// last sample came with input message "after" or before, and frees its state
// rows. Under the policies marked and gap the end makes a prediction with
// FlagIdle; under the others it makes none. If a sample is stored before the
// event, the sequence continues; a sample stored later begins a new
// sequence. Late events, repeats and events of former owners find a later
// sample, or nothing to end. If messages of a key wait for a missing one,
// the stage first stops waiting for it ("gaps"), and the key's sequences end
// after another silence. With Config.Forget, "forget":true also removes the
// stream, and with its last stream the key. The only other way to forget a
// stream is MaxStreams.
//
// A job that reads another job's input writes its end events there, too, with its
// name in them ("job":"green"). Each job leaves the others' events alone: how long a
// stream may be silent is a matter of each job. Programs that know nothing of that
// refuse such an event, for its field, and make a dead letter of it: upgrade the
// workers of the input's job before another job with Config.Idle reads it. A job that
// begins in old input finds no events of its own there: nobody listened for it.
//
// Silence is measured only while the partition's owner has contact with the
// server and keeps up with the input. The measurement starts again after a
// claim and after each break longer than a lease, because producers may have
// been cut off too. The stage's account must be allowed to publish to the
// input subject.
//
// # Promotion
//
// A model may have several readouts of the same classes. A job begins with one;
// Promote has another one answer from then on, without a stop. States and digests
// do not change: a readout only reads a state. Which readout makes a prediction
// is a function of the log, as everything else.
//
// Promote gives the promotion the next number and writes it into the job's entry,
// by compare-and-set. That is all it does. Each partition's owner, now or when one
// starts, then brings it into the partition's input:
//
//  1. its next record says that it knows of the promotion (Eusn-Promoted). From then
//     on no program that knows no promotions claims the partition;
//  2. when that record is stored, it publishes an event under the partition's own
//     key, as it does for end events, and again until the state has taken it. So a
//     promotion that was killed half done is completed by whoever owns the other
//     partitions next.
//
// The event is JSON,
//
//	{"partition":3,"number":2,"readout":"ab12...","who":"anna","when":"2026-02-01T08:00:00Z"}
//
// An event whose number the partition has behind it does nothing: repeats, late
// ones, those of former owners. Numbers may be missing: an owner publishes the
// newest alone. What is malformed, or under another key, becomes a dead letter.
// Where jobs read one input, the event names the job that it is for ("job"; without
// it, the job whose input it is), and the others leave it alone.
//
// A sequence keeps the readout that it began with; windows that overlap keep one
// each. With "now", the open sequences get the new one at once. Under the policy
// endless there is no other sequence to wait for, and every promotion is one with
// "now". A partition keeps at most 32 readouts for its open sequences (those that
// began under older ones get the oldest that is left). Each readout that is in use
// costs the engine its columns; one that has answered nothing for ten seconds is left
// out, and comes back when it is needed.
//
// From the event on, predictions name their readout (codec, column readout), also
// those of the job's first one, and those before it that are computed with the
// event's message. Their flags for lengths, ranges and rates stay those of the model
// that the worker runs.
//
// A worker takes a readout from its model, or reads it from the job's registry,
// beside its work. One that cannot get it does not bring its promotion into the
// input, and says so. If it takes over a partition that is in need of it, this
// partition waits, with a line in the log, and nothing is predicted by another one.
// An event says when the job's output was made: a job that begins anew under an old
// name leaves the earlier one's promotions alone.
// Verify needs no readout. Backfill uses the one it is given.
// A snapshot of a partition with a promotion has version 5, which programs from
// before refuse; a partition without one is as before. The number of partitions
// changes only when all partitions have taken the newest promotion. States that are
// imported into another job leave the promotions behind.
//
// # Shadows
//
// A shadow is a readout that scores what the answering one does, and answers nothing
// (SetShadow). The job's entry lists them; nothing in the log does, for no state and
// no prediction depends on them. An emitter publishes what they say on
// <job>.shadow.<readout>.<p> before the commit of the same predictions, with
// Eusn-Outs as the commit will have it, and waits for the server, but not for long
// (internal/pipeline/store/shadow.go). So each number comes once or more, with the same
// content, or, where the server did not take it in time, not at all.
// Eusn-Out-Created says when the job's output was made: a job that begins anew counts
// from 1 again.
//
// # Features in predictions
//
// With Worker.Carry, a share of the predictions carries its features, for a readout that
// is learnt when the samples are gone. Which ones is a function of stream, sequence
// number and row alone (internal/pipeline/wire/carry.go), so that a replay and another worker
// find the same. The shard reads them from the engine behind the call that made the
// prediction, before another sequence gets the slot. The emitter publishes them on
// <job>.features.<p> and waits until the server has them, then it commits the
// predictions: so each prediction of the share that is committed has its features
// there, once or more, under its number. As with dead letters, a server that refuses
// them holds the partition up. No state, commit or prediction depends on it, and
// workers may differ in their shares: those of a smaller one are among those of a
// larger one.
//
// # When room or input runs out
//
// In a partition with MaxStreams streams a new one takes the place of another: of the
// 64 streams silent longest, of the first that is between two sequences, or else of
// the first. An open sequence that is lost so is counted (Abandoned), and keys that
// the partition does not know from then on are flagged FlagGap. So names that
// somebody invents displace each other, and no stream that sends. If a single message
// needs more than a sixteenth of MaxStreams in new streams, and open sequences would
// be lost, it becomes a dead letter instead, before it has changed anything.
//
// An embedded server whose disk was full accepts nothing more in the NATS
// stream concerned, even after space is freed, and does not answer
// publishers: the stage tries again and commits nothing. Free space and
// restart: acknowledged messages are kept, the rest is computed again.
//
// A partition that has no new messages while old input expires keeps its
// state: its snapshot holds the state after its last message.
//
// Input that is removed (max_age, a purge) before its partition has read it
// is lost, and the sequences that may have had samples in it are flagged
// FlagGap: the open sequences of the partition, the next sequence of each
// stream that is between two, and the first of keys that the partition does
// not know. If producers number their messages, the numbers decide instead,
// except for sequences that silence ends before the next message. The record
// lists the messages before which input may have been lost since its
// snapshot, so that a replay sets the same flags. All partitions share the
// input's numbers, so nobody can see afterwards whether a missing message
// was the partition's. So while all input is still there, a worker asks the
// server about partitions without new messages, and the record says up to
// which number they had none, whenever half of the input lies behind what it
// said. Two cases remain. Flags are set without need
// if no worker owned the partition while the input lost messages that came
// after the partition's last one. A loss goes unnoticed, unless producers
// number their messages, if a single message is deleted by hand, or if input
// is purged by hand within a lease while the stage is late.
//
// # Cold streams
//
// The engine of a shard holds MaxSlots state rows: one state each. When more
// sequences are open, the rows of the least recently used ones, a sixteenth
// of the slots at a time, are stored in the NATS stream <JOB>-ROWS, one
// message each on <job>.rows.<p>.<epoch>. They are read back, many at once,
// before the engine call that needs them. Nothing else of a stream leaves
// memory: MaxStreams limits that.
//
// The place of a row is not part of the state: the digest uses the hash of a
// row, which is the same in either place, and each shard decides for itself.
// This is safe because rows are immutable, and a snapshot names the stored
// rows instead of holding them. A row is deleted only after a commit has
// named a snapshot that does not name the row. So a killed worker loses
// nothing: the next one continues with the names and reads the rows that it
// needs. Rows that killed workers stored and no snapshot names are deleted
// after the next claim. If a row is lost or damaged, its partition stops
// when it reads the row (the row's hash is in the snapshot); "state verify"
// reads them all. A row must fit one message: max_payload.
//
// # What the server refuses
//
// If the server refuses a write, or is connected but does not answer it, the
// worker gives up the partition that needs the write, and no other. The
// partition waits, longer each time (1 s to 30 s), and is claimed again from
// its last snapshot, until the cause is gone (backoff.go). If the store of
// rows does not answer, the worker waits 30 s for it once; after that it
// asks while it continues to work. Only commits and claims are tried again
// in place, because a partition cannot continue without them. A partition
// stops for good only if its state or its history may be wrong.
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
//   - wire.go: exports the message headers of producers
//   - safeguard.go, safeguard_chaos.go: disable one check for the fault harness (build tag chaos)
package pipeline
