// Package watch keeps the alarms of a job: a process beside the stage that reads the
// job's predictions, judges them by rules (package alarm) and publishes what follows,
// each event once. The stage does not know of it.
//
// # On the server
//
// The NATS stream <JOB>-ALARMS is the alarm log. One process at a time writes it:
//
//	<job>.alarm.<rule>.<key>  raised, acknowledged, cleared, as JSON (alarm.Event); the key as
//	                          alarm.Token writes it
//	<job>.alarm.rules         other rules hold from this position of the output on, likewise
//	<job>.alarm.record        who writes the log, and which state it began or begins with (JSON)
//	<job>.alarm.state         pieces of that state (alarm.Fold.Encode)
//
// The bucket <JOB>-LATEST has for each stream its last prediction and its alarms
// (alarm.Latest, JSON), under the stream's name as alarm.Token writes it. It is written
// after the log, within half a second while no more than 10,000 streams change in a second.
// Each message names the number of the message before it there, and a process that begins
// first stores the deletion of a key that is never there (=writer), then asks the log
// whether it is still its writer. So the server refuses what an earlier process writes, also
// one that was stopped for long and goes on. If the server refuses the first message of those
// that are under way because somebody else has stored one in the bucket, all that is known is
// written again: of the messages that an earlier process had under way, one behind the first
// may name a number that fits. A process that begins writes nothing there until
// it has judged what the output had when it began, for 10 s at most.
//
// # Each event once
//
// Every message of the log names the number of the message before it, and the server
// refuses it if another one is the last (compare-and-set on the whole log).
//
//  1. A process that starts reads the newest record and publishes one of its own behind
//     the last message. From then on the server refuses what an earlier process publishes:
//     it is fenced, and ends with ErrFenced.
//  2. It takes the state that the record names. The messages behind that state are the
//     tail: events that were published since.
//  3. It reads the job's output from the state's position on. Each event that follows is
//     the next of the tail, byte for byte, as long as there is one; then it is published.
//     Events of the tail that do not follow from predictions (other rules, an
//     acknowledgement, a silence) are taken at their position.
//     Several that follow from one message are published together, as a fast batch of
//     JetStream that ends at the first gap: the server stores them in their order, each
//     behind the one that it names, refuses all behind the first that it refuses, and says
//     then how many it has. Publishing without waiting for each answer would not do: what another process
//     stores amid them shifts the numbers, and one that comes behind a refused one would fit
//     again. NATS servers before 2.14 take one message at a time.
//  4. After some time, and when it ends, it stores its state, and a record that names it.
//     What was stored before is removed. The state has the rest of the tail in it, so that
//     what has been compared is not compared again by the next process.
//
// If the answer to a message does not come, the process reads which message has the next
// number. It is its own (it was stored), none (it is sent again) or another's (fenced).
//
// A rule about silence is decided when the server says, in one answer, what time it is
// and that the output has nothing that was not judged. The event has this time. From then
// on it is part of the log. Silence is counted from the stream's last prediction, or from
// when the process began to listen, or had its connection again, whichever is later.
//
// # Standing by
//
// A process that begins asks on <job>.alarms.alive whether another one keeps the alarms. If
// so, it stands by: it takes the stored state and reads log and output along. The answer
// (pulse) says how far the other one has judged the output, and which message of the log was
// its last then. Once a standby has that message, it judges the output up to there: all
// events that follow are in the log, and it compares them as in step 3. So it is never ahead
// of what is stored. It also notes which streams have changed since the bucket was written.
//
// It asks again every 100 ms. Where nobody listens (the server says so at once), or nobody
// answers for 5 s, it listens itself, takes the alarms over (step 1), and goes on with what
// it knows instead of the stored state: the rest of the log is the tail. It does not if its
// last event is not in the log any more. If what follows then is not what the log has, it
// begins again with the stored state.
//
// # Connections
//
// A process that does not keep the alarms yet belongs to one connection. When that breaks, it
// begins again on the next one, with the stored state, for the server may have lost something.
// So one that starts and one that comes back are the same. Neither believes at once that nobody
// is there: the server may be back only now, and the one that keeps the alarms comes back
// within its client's longest pause between two attempts. It waits so long, and 0.2 s (asker).
// It does not wait where the log has not begun, nor once it has stood by on this connection
// for longer, nor where the newest record is its own (its connection broke while it began), nor,
// when it starts, where its server is the one that this record names: that has not begun since.
//
// The process that keeps the alarms stays what it is while its connection is away: what it
// publishes is tried again until the server takes it, or says that it is fenced.
//
// Whatever is asked or read ends with the connection (store.Link): an answer cannot come on
// another one, and waiting for it took 5 to 10 s. Readers begin anew behind what they have read.
//
// # Why each event is once, and why somebody keeps the alarms
//
// Of several that find nobody, the server takes the record of one; the others hear of it.
// Exactly once does not depend on who is believed to be there, nor on any of these times: each
// message names the one before it, so only who wrote or read the log's last message can write
// the next one, and the log alone decides whose the alarms are. A wait that is too short costs
// a take-over that was not needed: the one that was there is fenced and begins again. A wait that is
// too long costs time. Somebody takes the alarms over within these waits while the server
// answers, because each of them is bounded and none begins again without a new connection.
//
// # When predictions are gone
//
// The predictions of each partition are numbered. If some are gone that have not been
// judged (output.keep), the process ends with alarm.ErrMissing. With Options.Missing it
// continues with those that are there: alarms that are on stay on.
//
// # When the output goes back in time
//
// A power failure may take the end of the output, and the stage makes the lost predictions
// again, in other messages, under the same numbers. Each event has the headers Eusn-Judged
// (partition:number of the predictions that had been judged, of the partitions with any
// since the event before) and, if it follows from a prediction, Eusn-Prediction (which one).
// Its time is that at which the output's message was stored. A process that begins compares
// that of what was judged last (compare). If the output has another message there, or ends
// before, the log is compared with what is left. The rest of it stands (alarm.Fold.Resume):
// its predictions are counted when they come again and decide nothing, and each event
// becomes true in the state with its prediction. An event of kind rules with a why says so,
// and the state is stored. A process that notices it at work begins again.
//
// Package alarm judges the rules; package drift detects changes; package notify sends
// the events.
//
// # Files
//
//   - watch.go: runs the process that keeps the alarms of a job
//   - begin.go: claims the alarm log and restores the state
//   - back.go: resumes after the output went back in time
//   - output.go: reads predictions
//   - judge.go: judges predictions and publishes events
//   - look.go: checks log and output periodically; raises alarms for silence
//   - standby.go: follows the process that keeps the alarms
//   - pulse.go: asks whether another process keeps the alarms
//   - book.go: writes the alarm log as its only writer
//   - tail.go: reads events from the alarm log
//   - together.go: publishes events in batches
//   - events.go: reads alarms for other commands
//   - request.go: requests acknowledgements and new rules
//   - latest.go: stores the latest prediction of each stream
//   - streams.go: creates the NATS streams of alarms
//   - outputs.go: finds the consumers of alarm outputs
package watch
