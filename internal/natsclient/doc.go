// Package natsclient connects to a NATS server for programs that run for months: every
// login method, a connection that is restored indefinitely, and log lines for its loss
// and return.
//
// It opens connections and checks that JetStream answers. The owner of a connection
// defines its messages and timeouts.
//
// # Files
//
//   - connect.go: connects to a server and reconnects
//   - consumer.go: handles the messages of a consumer one at a time
//   - repeats.go: limits repeated log lines
//   - reply.go: checks reply subjects
package natsclient
