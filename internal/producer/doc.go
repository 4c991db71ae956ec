// Package producer publishes samples to a job's input as producers should: one subject
// per stream, one Arrow record batch a message, numbered by Eusn-Seq and with a
// checksum.
//
// Lanes joins the samples of each stream into numbered messages, and publishes the
// messages in order through any failure. Three senders use Lanes:
//
//   - Publisher plays a recording at its recorded speed or faster, and can continue
//     where an earlier run ended.
//   - Live publishes samples as they are measured, for the goroutines of a program.
//     It blocks its caller while the server accepts nothing, and can continue after a
//     restart without losing or repeating a sample.
//   - The gateway (package gateway) keeps its messages on disk, in a Store.
//
// The package owns no data and no schema: a Source supplies the samples, package codec
// encodes them. The package depends on the reading stage only in the names of subjects
// and headers.
//
// # Files
//
//   - lanes.go: joins samples into messages and numbers messages (Lanes)
//   - flight.go: publishes messages and handles answers
//   - refusals.go: decides which refusals are final
//   - message.go: builds a message with headers; creates its span
//   - publisher.go: publishes recorded samples (Publisher)
//   - loop.go: plays several streams at a time
//   - streams.go: cuts the messages of each stream
//   - pace.go: schedules messages by the times of samples
//   - messages.go: makes the messages of a Publisher without a server
//   - live.go: publishes samples as they are measured (Live)
//   - piece.go: checks the samples of a Live, and removes stored samples
//   - resume.go: continues the numbers of a stream (compare-and-set)
package producer
