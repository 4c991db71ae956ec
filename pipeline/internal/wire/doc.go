// Package wire has the names and formats of what a job stores and sends:
// NATS streams and subjects, message headers and kinds, the record of a
// partition, the entry of a job, end events, digests and their versions.
// Package pipeline's documentation says what each means.
//
// It knows no client, no state and no clock: everything in it is a function of
// what it is given. What is written here is read by later versions, so a change
// follows CONTRIBUTING.md, "When a format changes".
package wire

//go:generate go test -count=1 -run ^TestAsyncAPI$ . -write-asyncapi
