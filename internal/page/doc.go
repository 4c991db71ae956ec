// Package page is the live page of a running stage: one HTML file without external links, and its
// data, as JSON and as server-sent events. The page only reads.
//
//	GET /                      the page
//	GET /page/state            the page's data as JSON (State), with the history
//	GET /page/events           the same as events: "hello" with the history, then "tick" each second
//	GET /page/stream?name=N    the last predictions of a stream, its alarms, and the command to explain them (Found)
//	GET /page/streams?part=P   names of recently active streams that contain P (Names)
//
// Package internal/metrics serves the page on its port, with the port's access control.
//
// # Cost
//
// Once a second the page reads pipeline.Counters, without a lock of the stage, and stores a history
// of fixed size: 15 minutes of seconds and 24 hours of minutes. Each state is encoded once for all
// viewers. There are at most MostViewers viewers; a viewer that reads slower than a state per
// second is dropped. Requests to the job's server (promotions, alarms, a stream) use a separate
// connection, only while the page has viewers, with limits of time and bytes.
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
//   - lookup.go: reads the predictions of a stream for a viewer
//   - page.html: is the page itself (docs/page.md)
package page
