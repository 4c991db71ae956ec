// Package wire defines the names and formats of a job's stored and sent data: NATS
// streams and subjects, message headers and kinds, the record of a partition, the entry
// of a job, end events, digests and their versions. Package pipeline's documentation
// explains their meaning.
//
// The package uses no client, state or clock: every result is a function of the
// arguments. Later versions read data written now, so a change follows CONTRIBUTING.md,
// "When a format changes".
//
// # Files
//
//   - subjects.go: names NATS streams and subjects
//   - pattern.go: parses an input subject; finds key and partition of a subject
//   - several.go: parses several input subjects
//   - headers.go: defines message headers
//   - crc.go: computes the checksum of a payload
//   - reason.go: defines the reasons of dead letters
//   - rules.go: checks names
//   - times.go: finds times far from the clock
//   - record.go: encodes the record of a partition
//   - entry.go: encodes the entry of a job and the identity of its model
//   - digest.go: defines digests
//   - version.go: defines the version of states
//   - row.go: defines the reference of a stored state
//   - event.go: decodes events in the input
//   - idle_event.go: encodes end events of silent streams
//   - promotion.go: encodes promotions
//   - resize.go: encodes the step of a change of partitions
//   - source.go: encodes the input of another job
//   - shadow.go: encodes shadows
//   - carry.go: selects predictions that carry features
//   - asyncapi_test.go: writes docs/asyncapi.json from the constants
package wire

//go:generate go test -count=1 -run ^TestAsyncAPI$ . -write-asyncapi
