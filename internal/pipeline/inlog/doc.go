// Package inlog serves programs that read a job's input without taking part in the job:
// the messages in order (Log). It publishes nothing, and creates nothing on the server
// except a consumer in memory.
//
// # Files
//
//   - asked.go: describes the work on a log, so that only the same work continues
//   - batches.go: hands messages in batches to a shard
//   - log.go: reads the messages of an input in order
package inlog
