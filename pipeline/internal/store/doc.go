// Package store finds what a job has stored on a NATS server: its NATS streams
// and the records of its partitions. Package wire says what they look like.
//
// It knows no state and no engine, and changes nothing.
package store
