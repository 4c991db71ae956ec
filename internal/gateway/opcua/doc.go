// Package opcua subscribes to variables of an OPC UA server and gives their samples to a
// gateway.
//
// The library for decoding a server's messages allocates any declared size, and panics in its
// own goroutines. Therefore each session runs in a separate process: the same program under
// another name (process.go starts the process, reader.go is its main function, session.go its
// session). The process writes the server's values to its standard output. A server's message
// can end this process, but nothing else.
//
// Each session makes one subscription. The first value of a variable in a session is its
// current value, like a birth of Sparkplug, and makes no sample; each later value is new. A
// missing value is no first value. Values of one stream in one message are sorted by source
// time (internal/image makes the samples). A session that ends is recreated after two seconds;
// its first samples carry the flag gap. Samples after a value with the overflow bit carry the
// flag gap, too, because the server's queue of the variable was full.
//
// The library acknowledges a notification before the gateway has stored its values, so a killed
// gateway loses the values in its memory. While the gateway applies backpressure, the client
// reads nothing and the server's queues fill.
//
// Browse and Observe serve a program that has no configuration yet. Browse follows the hierarchical
// references level by level, each node once, up to limits. Observe measures the period.
//
// # Files
//
//   - client.go: subscribes to a server and makes samples
//   - process.go: starts a reader process and reads its reports
//   - reader.go: runs a reader process within memory limits
//   - session.go: reads the values of one session; detects silent servers
//   - browse.go: finds the variables of a server
//   - observe.go: makes samples without a configured period
//   - nodes.go: parses the configured nodes
//   - login.go: selects an endpoint and a login
//   - trust.go: checks the certificate of a server
//   - explain.go: adds advice to errors
package opcua
