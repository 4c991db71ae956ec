// Package page is the live page of a running stage: one HTML file without external links, and its
// data, as JSON and as server-sent events. The page only reads.
//
//	GET /                      the page
//	GET /page/state            counts of machines and the state of the software as JSON (State), with the history
//	GET /page/events           the same as events: "hello" with the history, then "tick" each second
//	GET /page/machines         machines that a query selects, 50 at a time, and their groups (List)
//	GET /page/stream?name=N    the last predictions of a machine, its alarms and labels, and the command to explain them (Found)
//	GET /page/samples          samples of a machine in a time span (Samples)
//
// Package internal/metrics serves the page on its port, with the port's access control.
//
// # Machines
//
// The table of machines has all streams of the job. It is built from the job's output and alarm
// log on the server, so the page of each worker shows the predictions of all workers. The page
// reads the newest predictions at the first request of a viewer, and follows while it has viewers,
// and followedFor longer. The table has at most mostMachines machines, each with its last
// prediction and keptPoints points. Each machine has one Condition; viewers receive counts each
// second, and a list of pageRows machines on request.
//
// # Cost
//
// Once a second the page reads pipeline.Counters, without a lock of the stage, and stores a history
// of fixed size: 15 minutes of seconds and 24 hours of minutes. Each state is encoded once for all
// viewers. There are at most MostViewers viewers; a viewer that reads slower than a state per
// second is dropped. Requests to the job's server (predictions, promotions, alarms, a machine) use
// a separate connection, only for viewers, with limits of time and bytes.
//
// # Untrusted text
//
// Names of streams and classes, and errors, come from other programs. They are sent as JSON, and
// the page inserts them as text, never as HTML. The Content-Security-Policy allows only the page's
// own script and style sheet, by their hashes, and connections to the page's origin.
//
// # Files
//
//   - page.go: samples the counters of a stage every second
//   - history.go: keeps the figures of past seconds and minutes
//   - state.go: computes what the page shows
//   - serve.go: serves the page and pushes updates to viewers
//   - machines.go: keeps the table of all machines and judges their conditions
//   - plant.go: counts machines, and lists those that a query selects
//   - follow.go: reads predictions and alarms of the job into the table while the page is viewed
//   - machine.go: looks up a machine with its alarms and labels
//   - lookup.go: reads the predictions of a stream for a viewer
//   - samples.go: reads the samples of a stream for a viewer
//   - page.html: is the page itself (docs/page.md)
package page
