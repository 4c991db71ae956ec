// Package watch keeps the alarms of a job: a separate process reads the job's predictions,
// judges them by rules (package alarm) and publishes each resulting event once. The stage
// does not depend on this process.
//
// # On the server
//
// The NATS stream <JOB>-ALARMS is the alarm log. One process at a time writes the log:
//
//	<job>.alarm.<rule>.<key>  raised, acknowledged, cleared: JSON (alarm.Event); the key is
//	                          an alarm.Token
//	<job>.alarm.rules         new rules from a position of the output on: JSON (alarm.Event)
//	<job>.alarm.record        the writer of the log and its stored state: JSON (record)
//	<job>.alarm.state         pieces of the stored state (alarm.Fold.Encode)
//
// The bucket <JOB>-LATEST has the last prediction and the alarms of each stream
// (alarm.Latest, JSON). Its keys are stream names as alarm.Token. The process writes the
// bucket after the log, within half a second if at most 10,000 streams change per second.
// Each message names the number of the bucket's previous message. A starting process first
// stores the deletion of a key that never exists (=writer) and then checks that it still
// writes the log. The server therefore refuses the messages of an earlier process, even
// after a long stop. If the server refuses the first pending message because a foreign
// message is in the bucket, the process rewrites all streams: later pending messages of an
// earlier process may name a matching number. A starting process writes nothing there until
// it has judged the output's existing messages, for 10 s at most.
//
// # Each event once
//
// Every message of the log names the number of the previous message, and the server
// refuses a message with another number (compare-and-set on the whole log).
//
//  1. A starting process reads the newest record and publishes its own record after the
//     last message. From then on the server refuses messages of an earlier process: the
//     earlier process is fenced, and ends with ErrFenced.
//  2. The process loads the state that the record names. The log's later messages are the
//     tail: events published after the state was stored.
//  3. The process reads the job's output from the state's position on. Each resulting event
//     must equal the tail's next event, byte for byte; after the tail, events are published.
//     Events of the tail that do not follow from predictions (new rules, an
//     acknowledgement, a silence) are applied at their position.
//     Several events of one message are published together, as a fast batch of JetStream
//     that ends at the first gap: the server stores them in order, refuses all events after
//     the first refused event, and reports the number of stored events. Publishing without
//     waiting for each reply is not safe: a message of another process shifts the numbers,
//     and an event after a refused event could then fit. NATS servers before 2.14 accept
//     one message at a time.
//  4. Periodically, and when it ends, the process stores its state and a record that names
//     the state, and removes the previous state. The state includes the rest of the tail,
//     so that the next process does not repeat comparisons.
//
// If the reply to a message is missing, the process reads the message with the next number:
// its own message (stored), no message (resend) or another process's message (fenced).
//
// A silence rule is decided when one server reply has the time and shows that the output
// has no unjudged messages. The event has this time and is then part of the log. Silence is
// counted from the stream's last prediction, or from when the process started to listen or
// reconnected, whichever is later.
//
// # Standing by
//
// A starting process asks on <job>.alarms.alive whether another process (the keeper) keeps
// the alarms. If so, the process stands by: it loads the stored state and follows log and
// output. The answer (pulse) has the keeper's position in the output and its last message of
// the log. After the standby has read this message, it judges the output up to the
// position: all resulting events are in the log, and are compared as in step 3. So the
// standby is never ahead of the stored log. It also records the streams that changed since
// the bucket was written.
//
// The standby repeats the question every 100 ms. If no process listens (the server reports
// this at once), or no answer comes for 5 s, the standby listens itself, takes the alarms
// over (step 1), and continues with its own state instead of the stored state: the rest of
// the log is the tail. If its last event is missing from the log, or the resulting events
// differ from the log, it restarts from the stored state.
//
// # Connections
//
// A process that does not keep the alarms yet belongs to one connection. If the connection
// breaks, the process restarts from the stored state on the next connection, because the
// server may have lost data. A started process and a reconnected process thus behave
// alike. Neither trusts a report "no listener" at once: the server may have just started,
// and the keeper reconnects within its client's longest pause between two attempts. The
// process waits for this pause plus 0.2 s (asker). It does not wait if the log is new, if
// it has stood by on this connection for longer, if the newest record is its own (its
// connection broke during the start), or, at its start, if it is connected to the server
// that this record names: that server has not restarted since.
//
// The keeper stays the keeper while its connection is down: it retries each message until
// the server stores it, or reports that the process is fenced.
//
// Each request and each read ends with the connection (store.Link): a reply cannot arrive
// on another connection, and waiting for a lost reply took 5 to 10 s. Readers restart after
// the last message read.
//
// # Why each event is published once, and why a process keeps the alarms
//
// If several processes find no keeper, the server accepts the record of only one; the other
// processes hear its answers. Exactly-once does not depend on these questions or times: each
// message names the previous message, so only a process that wrote or read the log's last
// message can write the next message. Only the log decides who keeps the alarms. Too short a
// wait costs an unnecessary take-over: the previous keeper is fenced and restarts. Too long
// a wait costs time. While the server answers, some process takes the alarms over within
// these waits: each wait is bounded and restarts only with a new connection.
//
// # When predictions are gone
//
// The predictions of each partition are numbered. If unjudged predictions were removed
// (output.keep), the process ends with alarm.ErrMissing. With Options.Missing it continues
// with the remaining predictions: active alarms stay active.
//
// # When the output goes back in time
//
// A power failure may remove the end of the output. The stage then republishes the lost
// predictions in new messages, with the same prediction numbers. Each event has the header
// Eusn-Judged (partition:number of the judged predictions, for partitions that changed since
// the previous event) and, if it follows from a prediction, Eusn-Prediction (its number).
// The event's time is the storage time of the output's message. A starting process compares
// this time with the last judged message (compareOutput). If the output has a different
// message there, or ends earlier, the remaining output is compared with the log, and the
// rest of the log is accepted (alarm.Fold.Resume): its predictions are counted on their
// return and decide nothing, and each event enters the state with its prediction. An event
// of kind rules with a why records this, and the state is stored. A running process that
// detects the loss restarts.
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
//   - publish.go: publishes an event, and finds out its result without an answer
//   - tail.go: reads events from the alarm log
//   - together.go: publishes events in batches
//   - events.go: reads alarms for other commands
//   - request.go: requests acknowledgements and new rules
//   - latest.go: stores the latest prediction of each stream
//   - streams.go: creates the NATS streams of alarms
//   - outputs.go: finds the consumers of alarm outputs
package watch
