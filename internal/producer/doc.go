// Package producer publishes samples to a job's input as producers should: one
// subject per stream, one Arrow record batch a message, numbered by Eusn-Seq and
// with a checksum (Publisher). It plays a recording in its own time or faster,
// keeps each stream in order through any failure, and can continue where an
// earlier run ended.
//
// Live does the same for samples that are taken now: it joins those of a stream
// into messages, holds back its caller while the server takes none, and can
// continue after a restart without losing or repeating a sample.
//
// It owns no data and no schema: a Source gives it the samples, package codec
// encodes them. It knows nothing of the stage that reads them but the names of
// subjects and headers.
//
// # Files
//
//   - publisher.go: publishes recorded samples (Publisher)
//   - messages.go: makes the messages of a Publisher without a server
//   - loop.go: sends messages of several streams at a time
//   - streams.go: makes the messages of each stream in order
//   - answers.go: handles answers and resends messages
//   - pace.go: schedules messages by the times of samples
//   - message.go: builds a message with headers
//   - live.go: publishes samples as they are measured (Live)
//   - live_loop.go: sends due messages
//   - lane.go: queues the samples of a stream
//   - resume.go: continues the numbers of a stream (compare-and-set)
package producer
