// Package page is the live page of a running stage: one HTML file without links to
// anywhere, and what it shows, as JSON and as server-sent events. It only reads.
//
//	GET /                      the page
//	GET /page/state            what it shows, as JSON (State), with the history
//	GET /page/events           the same as events: "hello" with the history, then "tick" each second
//	GET /page/stream?name=N    the last predictions of a stream, its alarms, and how to explain them (Found)
//	GET /page/streams?part=P   names of streams that predicted lately and hold P (Names)
//
// Package internal/metrics serves them on its port, behind what guards that port.
//
// # What it costs
//
// Once a second it reads pipeline.Counters, which takes no lock of the stage, and keeps
// a history of fixed size: 15 minutes by the second and 24 hours by the minute. What is
// sent is encoded once for all who look. There are at most MostViewers of them; one that
// does not read as fast as a state a second is dropped. What the job's server is asked
// for (promotions, alarms, a stream) goes over a connection of its own, only while
// somebody looks, and each question has limits of time and bytes.
//
// # What comes from outside
//
// Names of streams and classes, and errors, come from outside. They leave as JSON, and
// the page makes them text, never HTML. Its Content-Security-Policy allows the one
// script and the one style sheet in it, by their hashes, and connections to where it
// came from; nothing else.
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
