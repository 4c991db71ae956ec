// Package fleet reports the status of a job.
//
// Each process of a job (worker, gateway, alarm process) has a Responder. The Responder answers
// NATS service discovery under the name eusn-stream, and questions on the subject
// <job>.status.report with a Process as JSON. It reads the process's existing counters and uses its
// own connection, so that the process's work never waits.
//
// BuildReport creates a Report of a job: it asks the processes, and the server for the rest
// (missing processes, messages of partitions without a worker, the job's model, alarms, disk).
// Report.Judge derives findings with levels, a verdict in one sentence and the first step.
//
// Answers go to <job>.status.answer.<asker>, so that processes need no right to publish to inboxes.
// A server that temporarily allows answers to any inbox (allow_responses) would register each
// message of a worker's consumer, at the cost of the messages themselves.
//
// Decode bounds every answer. docs/status.md describes the JSON.
//
// # Files
//
//   - process.go: defines what a process reports
//   - decode.go: decodes and bounds the report of a process
//   - responder.go: answers status questions for a process
//   - source.go: collects the figures of a stage or gateway
//   - heartbeat.go: publishes heartbeats; remembers vanished processes
//   - journal.go: keeps the last warnings and errors of a log
//   - meter.go: computes rates
//   - ask.go: asks the processes of a job, or of all jobs
//   - look.go: creates the report of a job from its processes and the server
//   - partitions.go: combines the data about partitions; reads records and waiting messages
//   - stored.go: reads model, alarms and storage of the job from the server
//   - report.go: defines the report of a job
//   - judge.go: finds problems in a report (docs/status.md)
//   - verdict.go: writes the verdict and the numbers in sentences
package fleet
