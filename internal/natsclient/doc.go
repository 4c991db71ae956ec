// Package natsclient connects to a NATS server for programs that run for months: every
// login method, indefinite reconnection, and log lines for the loss and return of the
// connection.
//
// The package opens connections and checks JetStream's answers. The owner of a connection
// defines messages and timeouts.
//
// # Files
//
//   - connect.go: connects to a server and reconnects
//   - consumer.go: handles the messages of a consumer one at a time
//   - purge.go: removes the old messages of a subject
//   - repeats.go: limits repeated log lines
//   - reply.go: checks reply subjects
package natsclient
