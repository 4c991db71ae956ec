// Package mqtt receives messages of MQTT devices (3.1.1 and 5) for a gateway, either as a
// broker (Broker) or as a client of another broker (Client). PUBACK and PUBREC are sent after
// the NATS server has stored the message, in the order of the messages.
//
// # Files
//
//   - broker.go: accepts messages as a broker
//   - limits.go: limits what devices may ask a broker
//   - sessions.go: forgets sessions without a connection
//   - timed.go: closes connections that send too slowly
//   - client.go: receives messages from another broker
//   - observe.go: shows the messages of another broker, without a session
//   - connection.go: tracks which acknowledgements the other broker has read
//   - acks.go: sends acknowledgements in the order of the messages
package mqtt
