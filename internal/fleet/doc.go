// Package fleet says how a job is.
//
// Each process of a job (worker, gateway, process of alarms) has a Responder. It answers
// NATS service discovery under the name eusn-stream, and questions on the subject
// <job>.status.report with a Process as JSON. It reads counters that the process has
// anyway, on a connection of its own: nobody who works waits for it.
//
// Look makes a Report of a job: it asks the processes, and the server about what no process
// says (who is missing, what waits for partitions without a worker, the job's model, alarms,
// disk). Report.Judge turns the figures into findings with levels, a verdict in one sentence
// and what to do first.
//
// Answers go to <job>.status.answer.<asker>, so that processes need no right to publish to
// inboxes. A server that allows answers to any inbox for a while (allow_responses) would
// note each message that a worker's consumer gets: that costs what the messages cost.
//
// Whatever answers on the subject, Decode bounds it. docs/status.md describes the JSON.
//
// # Files
//
//   - process.go: defines what a process reports
//   - decode.go: decodes and bounds the report of a process
//   - responder.go: answers status questions for a process
//   - teller.go: collects the figures of a stage or gateway
//   - heartbeat.go: publishes heartbeats; remembers vanished processes
//   - journal.go: keeps the last warnings and errors of a log
//   - meter.go: computes rates
//   - ask.go: asks the processes of a job, or of all jobs
//   - look.go: makes the report of a job from its processes and the server
//   - report.go: defines the report of a job
//   - judge.go: finds problems in a report and writes the verdict (docs/status.md)
package fleet
