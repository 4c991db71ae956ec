// Package opcua subscribes to variables of an OPC UA server, and gives a gateway
// samples of them.
//
// The library that decodes what a server sends allocates what it is told to, and
// panics in goroutines of its own. So each session is made by another process: this
// program again, under another name (process.go starts it, reader.go is what it does,
// session.go its session). The process writes the values of the server to its standard output. What the
// server sends can end that process, and nothing else.
//
// Each session makes one subscription. The first value of a variable in it tells
// what is so, like a birth of Sparkplug, and makes no sample; what comes after it
// is a new value. A missing value is no first value. Values of one stream that come together are in the order of their
// source times (internal/image makes samples of them). A session that ends is
// made again, every two seconds; its first samples carry the flag gap, and so do those
// after a value with the overflow bit: the server's queue of a variable was full.
//
// The library acknowledges a notification to the server before the gateway has
// stored it, so what a killed gateway has in hand is lost. While the gateway holds
// back, nothing is read, and the server's queues fill.
//
// # Files
//
//   - client.go: subscribes to a server and makes samples
//   - process.go: starts a reader process and reads its reports
//   - reader.go: runs a reader process within memory limits
//   - session.go: reads the values of one session; detects silent servers
//   - nodes.go: parses the configured nodes
//   - login.go: selects an endpoint and a login
//   - trust.go: checks the certificate of a server
//   - explain.go: adds advice to errors
package opcua
