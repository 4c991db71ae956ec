// Package mqtt takes messages of MQTT devices, 3.1.1 and 5, for a gateway: as a
// broker of its own (Broker), or as a client of another one (Client). A PUBACK
// or PUBREC goes out after the server has acknowledged the message, in the order
// in which the messages came.
//
// # Files
//
//   - broker.go: accepts messages as a broker
//   - limits.go: limits what devices may ask a broker
//   - sessions.go: forgets sessions without a connection
//   - timed.go: closes connections that send too slowly
//   - client.go: receives messages from another broker
//   - connection.go: tracks which acknowledgements the other broker has read
//   - acks.go: sends acknowledgements in the order of the messages
package mqtt
