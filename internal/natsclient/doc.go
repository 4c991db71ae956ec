// Package natsclient connects to a NATS server as programs that run for months
// need it: every way to log in, a connection that is taken up again for ever,
// and a word in the log when it is lost and when it is back.
//
// It opens connections and asks whether JetStream answers. What is said on a
// connection, and for how long somebody waits there, is its owner's.
//
// # Files
//
//   - connect.go: connects to a server and reconnects
//   - consumer.go: handles the messages of a consumer one at a time
//   - repeats.go: limits repeated log lines
//   - reply.go: checks reply subjects
package natsclient
